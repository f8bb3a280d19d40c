import { Readable, Writable } from "node:stream";
import type { StreamRequest, StreamResponse } from "./stream-front.ts";

/** Returns the body of a request as a stream of Node. A request that is cut off never ends the stream. */
export function bodyStreamOf(request: StreamRequest): Readable {
  const stream = new Readable({ read: () => void request.resume() });
  request.on("end", () => stream.push(null));
  request.on("data", (content) => {
    if (!stream.push(content)) request.pause();
  });
  return stream;
}

/** Returns the body of a response as a stream of Node. */
export function bodyStreamTo(response: StreamResponse): Writable {
  let onRoom: (() => void) | undefined;
  response.on("drain", () => {
    const goOn = onRoom;
    onRoom = undefined;
    goOn?.();
  });
  return new Writable({
    decodeStrings: true,
    write(content: Buffer, _encoding, done) {
      if (response.write(content) || response.destroyed) done();
      else onRoom = done;
    },
    final(done) {
      response.end();
      done();
    },
  });
}
