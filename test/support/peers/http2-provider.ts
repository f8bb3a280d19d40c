import { once } from "node:events";
import http2, { type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";
import { type FrameType, frameTypes } from "../../cases/control-plane/frames.ts";

/** A provider that speaks HTTP/2 and nothing else. */
export interface Http2Provider {
  readonly port: number;
  readonly sessions: readonly http2.ServerHttp2Session[];
  /** The head of each request. */
  readonly heads: readonly IncomingHttpHeaders[];
  /** The most streams that were open at a time on one session. */
  mostStreams(): number;
}

type Answering = (stream: ServerHttp2Stream, head: IncomingHttpHeaders, count: number) => void;

/** Echoes the request. */
export const echo: Answering = (stream, head) => {
  const parts: Buffer[] = [];
  let trailers: IncomingHttpHeaders = {};
  stream.on("data", (part: Buffer) => parts.push(part));
  stream.on("trailers", (found: IncomingHttpHeaders) => {
    trailers = found;
  });
  stream.on("end", () => {
    stream.respond({ ":status": 200, "content-type": "application/json" });
    stream.end(
      JSON.stringify({ method: head[":method"], path: head[":path"], body: Buffer.concat(parts).toString(), trailers }),
    );
  });
};

interface ProviderOptions {
  readonly tls?: { readonly cert: Buffer; readonly key: Buffer };
  readonly settings?: http2.Settings;
}

export async function startHttp2Provider(
  answer: Answering = echo,
  options: ProviderOptions = {},
): Promise<Http2Provider> {
  const { tls, settings = {} } = options;
  const server = tls === undefined ? http2.createServer({ settings }) : http2.createSecureServer({ ...tls, settings });
  const sessions: http2.ServerHttp2Session[] = [];
  const heads: IncomingHttpHeaders[] = [];
  const streams = new Map<object, number>();
  let mostStreams = 0;
  server.on("session", (session) => {
    sessions.push(session);
    session.on("error", () => {});
  });
  server.on("stream", (stream, head) => {
    const { session = {} } = stream;
    const count = (streams.get(session) ?? 0) + 1;
    streams.set(session, count);
    mostStreams = Math.max(mostStreams, count);
    stream.on("close", () => streams.set(session, (streams.get(session) ?? 0) - 1));
    stream.on("error", () => {});
    heads.push(head);
    answer(stream, head, heads.length - 1);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    for (const session of sessions) session.destroy();
  });
  return { port: (server.address() as AddressInfo).port, sessions, heads, mostStreams: () => mostStreams };
}

interface Frame {
  readonly type: FrameType | undefined;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

export interface FramesProvider {
  readonly port: number;
  /** The received frames of each connection. */
  readonly connections: readonly Frame[][];
}

/** The same on the level of frames: the test writes the frames of the response. */
export async function startFramesProvider(
  answer: (frame: Frame, socket: Socket, connection: number) => void,
): Promise<FramesProvider> {
  const connections: Frame[][] = [];
  const sockets: Socket[] = [];
  const names = Object.fromEntries(Object.entries(frameTypes).map(([name, type]) => [type, name]));
  const server = createServer((socket) => {
    const frames: Frame[] = [];
    const connection = connections.push(frames) - 1;
    sockets.push(socket);
    let buffered = Buffer.alloc(0);
    let skipped = 24;
    socket.on("error", () => {});
    // SETTINGS, of nothing.
    socket.write(Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]));
    socket.on("data", (chunk: Buffer) => {
      buffered = Buffer.concat([buffered, chunk]);
      if (skipped > 0) {
        if (buffered.length < skipped) return;
        buffered = buffered.subarray(skipped);
        skipped = 0;
      }
      while (buffered.length >= 9 && buffered.length >= 9 + buffered.readUIntBE(0, 3)) {
        const end = 9 + buffered.readUIntBE(0, 3);
        const frame = {
          type: names[buffered.readUInt8(3)] as FrameType | undefined,
          flags: buffered.readUInt8(4),
          stream: buffered.readUInt32BE(5),
          payload: buffered.subarray(9, end),
        };
        buffered = buffered.subarray(end);
        frames.push(frame);
        answer(frame, socket, connection);
      }
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return { port: (server.address() as AddressInfo).port, connections };
}
