import { once } from "node:events";
import { connect, type Socket } from "node:net";
import tls from "node:tls";

/** HTTP/2 without a library between: frames as RFC 9113 lays them out, well-formed or not. */
export interface FramesPeer {
  readonly socket: Socket;
  send(...frames: readonly Uint8Array[]): void;
  /** The number of received frames of a type. */
  count(type: FrameType): number;
  /** The error code of the GOAWAY that came last; of the RST_STREAM of a stream. */
  goaway(): number | undefined;
  reset(stream: number): number | undefined;
  /** Resolves once the condition holds, or the listener has closed the connection. */
  until(holds: () => boolean): Promise<void>;
  readonly closed: Promise<void>;
}

export const frameTypes = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;
export type FrameType = keyof typeof frameTypes;

export const flags = { endStream: 1, ack: 1, endHeaders: 4 } as const;

interface Frame {
  readonly flags?: number;
  readonly stream?: number;
  readonly payload?: Uint8Array;
}

const headBytes = 9;

export function frame(type: FrameType, { flags: set = 0, stream = 0, payload = new Uint8Array() }: Frame = {}): Buffer {
  const head = Buffer.alloc(headBytes);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(frameTypes[type], 3);
  head.writeUInt8(set, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

export const uint32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
};

/** A header as a literal that is never indexed (RFC 7541, section 6.2.2), of less than 127 bytes each. */
export const literal = (name: string, value: string): Buffer =>
  Buffer.concat([Buffer.from([0, name.length]), Buffer.from(name), Buffer.from([value.length]), Buffer.from(value)]);

/** The head of a gRPC call. */
export const grpcHead = (path: string, more: Readonly<Record<string, string>> = {}): Buffer =>
  Buffer.concat([
    // `:method: POST` and `:scheme: http` of the static table.
    Buffer.from([0x83, 0x86]),
    literal(":path", path),
    literal(":authority", "localhost"),
    literal("content-type", "application/grpc"),
    literal("te", "trailers"),
    ...Object.entries(more).map(([name, value]) => literal(name, value)),
  ]);

const settingsOf = (settings: Readonly<Record<number, number>>): Buffer =>
  Buffer.concat(
    Object.entries(settings).map(([id, value]) => Buffer.concat([Buffer.from([0, Number(id)]), uint32(value)])),
  );

/** A frame from the listener. */
export interface ReceivedFrame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

/** Identifier of SETTINGS_INITIAL_WINDOW_SIZE. */
export const initialWindowSize = 4;

export async function openFrames(
  address: string,
  settings: Readonly<Record<number, number>> = {},
  onFrame: (received: ReceivedFrame) => void = () => {},
): Promise<FramesPeer> {
  const { protocol, port, hostname: host } = new URL(address);
  const isTls = protocol === "https:";
  const to = { port: Number(port), host };
  // The tests check frames, not the certificate.
  const socket = isTls ? tls.connect({ ...to, ALPNProtocols: ["h2"], rejectUnauthorized: false }) : connect(to);
  const counts = new Map<number, number>();
  const resets = new Map<number, number>();
  let goaway: number | undefined;
  let buffered = Buffer.alloc(0);
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  // A flood may well end in a reset.
  socket.on("error", () => {});
  socket.on("data", (chunk: Buffer) => {
    buffered = Buffer.concat([buffered, chunk]);
    while (buffered.length >= headBytes) {
      const length = buffered.readUIntBE(0, 3);
      if (buffered.length < headBytes + length) break;
      const type = buffered.readUInt8(3);
      const payload = buffered.subarray(headBytes, headBytes + length);
      counts.set(type, (counts.get(type) ?? 0) + 1);
      if (type === frameTypes.goaway) goaway = payload.readUInt32BE(4);
      if (type === frameTypes.reset) resets.set(buffered.readUInt32BE(5), payload.readUInt32BE(0));
      const [set, stream] = [buffered.readUInt8(4), buffered.readUInt32BE(5)];
      buffered = buffered.subarray(headBytes + length);
      onFrame({ type, flags: set, stream, payload });
    }
  });
  await once(socket, isTls ? "secureConnect" : "connect");
  socket.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  socket.write(frame("settings", { payload: settingsOf(settings) }));
  return {
    socket,
    closed,
    send: (...frames) => void socket.write(Buffer.concat(frames)),
    count: (type) => counts.get(frameTypes[type]) ?? 0,
    goaway: () => goaway,
    reset: (stream) => resets.get(stream),
    until: (holds) =>
      new Promise((resolve) => {
        const look = () => {
          if (!holds() && !socket.closed) return;
          socket.off("data", look).off("close", look);
          resolve();
        };
        socket.on("data", look).on("close", look);
        look();
      }),
  };
}
