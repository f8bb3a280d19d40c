import type { Socket } from "node:net";
import { frameTypes } from "../cases/control-plane/frames.ts";

/** Records the streams that clients sent, and the server's frames for them. */
export interface FrameRecorder {
  /** Watches a connection over HTTP/2 without TLS; `from` is the client's end. */
  watch(from: Socket, to: Socket): void;
  /** Streams whose HEADERS a client sent over the connection from this port. */
  sentBy(clientPort: number): ReadonlySet<number>;
  /** Streams that were on the wire and that the server refused, with RST_STREAM or by a GOAWAY that leaves them out. */
  refusedByServer(): readonly string[];
  /** Connections on which a GOAWAY of the server was seen. */
  goaways(): number;
}

interface RecordedConnection {
  readonly port: number;
  readonly sent: Set<number>;
  readonly resets: Set<number>;
  lastStream: number | undefined;
}

const prefaceBytes = 24;
const headBytes = 9;
const refusedStream = 7;

export function createFrameRecorder(): FrameRecorder {
  const connections: RecordedConnection[] = [];
  return {
    watch(from, to) {
      const connection: RecordedConnection = {
        port: from.remotePort ?? 0,
        sent: new Set(),
        resets: new Set(),
        lastStream: undefined,
      };
      connections.push(connection);
      readFrames(from, prefaceBytes, (type, stream) => {
        if (type === frameTypes.headers) connection.sent.add(stream);
      });
      readFrames(to, 0, (type, stream, payload) => {
        if (type === frameTypes.goaway) connection.lastStream = payload.readUInt32BE(0);
        if (type === frameTypes.reset && payload.readUInt32BE(0) === refusedStream) connection.resets.add(stream);
      });
    },
    // Ports are used again: the connection that was opened last counts.
    sentBy: (clientPort) => connections.findLast(({ port }) => port === clientPort)?.sent ?? new Set(),
    refusedByServer: () =>
      connections.flatMap(({ sent, resets, lastStream = Number.POSITIVE_INFINITY }) =>
        [...sent].filter((stream) => resets.has(stream) || stream > lastStream).map((stream) => `stream ${stream}`),
      ),
    goaways: () => connections.filter(({ lastStream }) => lastStream !== undefined).length,
  };
}

function readFrames(socket: Socket, skip: number, onFrame: (type: number, stream: number, payload: Buffer) => void) {
  let buffered = Buffer.alloc(0);
  let toSkip = skip;
  socket.on("data", (chunk: Buffer) => {
    buffered = Buffer.concat([buffered, chunk]);
    if (toSkip > 0) {
      if (buffered.length < toSkip) return;
      buffered = buffered.subarray(toSkip);
      toSkip = 0;
    }
    while (buffered.length >= headBytes) {
      const end = headBytes + buffered.readUIntBE(0, 3);
      if (buffered.length < end) break;
      onFrame(buffered.readUInt8(3), buffered.readUInt32BE(5), buffered.subarray(headBytes, end));
      buffered = buffered.subarray(end);
    }
  });
}
