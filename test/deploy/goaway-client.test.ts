import { once } from "node:events";
import http2, { type ClientHttp2Session, type ClientHttp2Stream } from "node:http2";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { flags, frame, frameTypes, uint32 } from "../cases/control-plane/frames.ts";

/** Why a caller over HTTP/2 has to repeat a refused stream, however carefully a server stops. */

const prefaceBytes = 24;
const headBytes = 9;
const everyStream = 0x7fffffff;
/** `:status: 200` of the static table. */
const ok = Buffer.from([0x88]);

/** Answers every stream. The first connection is sent GOAWAY in the same segment as its first answer. */
async function startServer() {
  const streams: string[] = [];
  let connections = 0;
  const server = createServer((socket: Socket) => {
    connections += 1;
    const connection = connections;
    let buffered = Buffer.alloc(0);
    let toSkip = prefaceBytes;
    socket.write(frame("settings"));
    socket.on("error", () => {});
    socket.on("data", (chunk: Buffer) => {
      buffered = Buffer.concat([buffered, chunk]);
      if (toSkip > 0 && buffered.length >= toSkip) {
        buffered = buffered.subarray(toSkip);
        toSkip = 0;
      }
      while (toSkip === 0 && buffered.length >= headBytes) {
        const end = headBytes + buffered.readUIntBE(0, 3);
        if (buffered.length < end) break;
        const [type, stream] = [buffered.readUInt8(3), buffered.readUInt32BE(5)];
        buffered = buffered.subarray(end);
        if (type !== frameTypes.headers) continue;
        streams.push(`connection ${connection}, stream ${stream}`);
        const answer = frame("headers", { stream, flags: flags.endHeaders | flags.endStream, payload: ok });
        // No stream is excluded: every stream that the client may ever start would be served.
        const goaway = frame("goaway", { payload: Buffer.concat([uint32(everyStream), uint32(0)]) });
        socket.write(connection === 1 ? Buffer.concat([answer, goaway]) : answer);
      }
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return { address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, streams };
}

function connect(address: string): ClientHttp2Session {
  const session = http2.connect(address);
  onTestFinished(() => session.destroy());
  return session;
}

/** Resolves with the code that the stream ended with. */
function codeOf(stream: ClientHttp2Stream): Promise<number | undefined> {
  return new Promise((resolve) => {
    stream.on("error", () => {});
    stream.once("close", () => resolve(stream.rstCode));
    stream.resume().end();
  });
}

it("Node's client rejects requests not yet sent when it reads GOAWAY; a retry is served", async () => {
  const { address, streams } = await startServer();
  const session = connect(address);
  const first = session.request({ ":path": "/first" });
  const second = new Promise<ClientHttp2Stream>((resolve) => {
    first.once("response", () => {
      // As documented: the API does not tell the caller that this session is about to end.
      expect([session.closed, session.destroyed]).toEqual([false, false]);
      resolve(session.request({ ":path": "/second" }));
    });
  });
  expect(await codeOf(first)).toBe(http2.constants.NGHTTP2_NO_ERROR);
  const refused = await second;
  expect(await codeOf(refused)).toBe(http2.constants.NGHTTP2_REFUSED_STREAM);
  expect(refused.id).toBe(3);
  // None of its frames has left the client.
  expect(streams).toEqual(["connection 1, stream 1"]);
  expect(await codeOf(connect(address).request({ ":path": "/second" }))).toBe(http2.constants.NGHTTP2_NO_ERROR);
  expect(streams).toEqual(["connection 1, stream 1", "connection 2, stream 1"]);
});
