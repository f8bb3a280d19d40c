import { once } from "node:events";
import { type OnReadOpts, type Server, Socket, type SocketConstructorOpts } from "node:net";
import { type SocketPair, tryOnLoopback } from "./loopback-trial.ts";

/** Reads a connection without a stream between. */
export interface SocketReader {
  /**
   * `buffer` must not be kept after the return, unless it came from `nextBuffer`. Returns false when this reader no
   * longer reads the socket: the bytes then go to the stream.
   */
  read(length: number, buffer: Buffer): boolean;
  /** The peer has ended its side. */
  readEnd(): void;
  /** Returns the reader's own buffer for the next read; undefined: the shared buffer. */
  nextBuffer(): Buffer | undefined;
}

/** Size of Node's reads. */
export const readBytes = 64 * 1024;
const shared = Buffer.allocUnsafeSlow(readBytes);
/** The bytes of the last read, unless they came in a reader's own buffer. */
export const sharedReads = { bytes: shared, view: new DataView(shared.buffer) };

/**
 * A connection from a client, read into one buffer that all connections share. Node allocates 64 KiB for each read
 * and shrinks the buffer afterwards. That costs 1 of the 22 µs of a proxied request, and more when several hundred
 * connections are read in one tick, each into other memory.
 */
export class SharedSocket extends Socket {
  #reader: SocketReader | undefined = undefined;
  readonly #askForBuffers: (reader: SocketReader | undefined) => void;

  constructor({ handle, server }: AcceptedSocket) {
    let asked: SocketReader | undefined;
    const onread: OnReadOpts = { buffer: () => asked?.nextBuffer() ?? shared, callback: took };
    super({ handle, allowHalfOpen: true, onread } as SocketConstructorOpts);
    this.#askForBuffers = (reader) => {
      asked = reader;
    };
    // The server counts its open connections and closes with the last one.
    Object.assign(this, { server, _server: server });
  }

  /** Sets the reader; undefined: reads go to the stream, as for any other socket. */
  readBy(reader: SocketReader | undefined): void {
    this.#reader = reader;
    this.#askForBuffers(reader);
  }

  /** Returns false to pause reading. */
  took(length: number, buffer: Buffer): boolean {
    if (this.#reader?.read(length, buffer) === true) return true;
    return this.push(Buffer.from(buffer.subarray(0, length)));
  }

  /** Node pushes null at the end: tell the reader before the stream. */
  override push(bytes: Uint8Array | null): boolean {
    if (bytes === null) this.#reader?.readEnd();
    return super.push(bytes);
  }
}

/** Callback of all sockets; Node passes the socket as `this`. */
function took(this: unknown, length: number, given: Uint8Array): boolean {
  // The buffer is the shared one, or a reader's own.
  return this instanceof SharedSocket && this.took(length, given as Buffer);
}

interface AcceptedSocket {
  readonly handle: unknown;
  readonly server: Server;
}

/** Replaces a connection that was accepted a moment ago and has no listeners yet. */
export function sharedSocketOf(accepted: Socket, server: Server): SharedSocket {
  const inside = accepted as unknown as { _handle: unknown };
  const handle = inside._handle;
  inside._handle = null;
  return new SharedSocket({ handle, server });
}

/**
 * Node documents custom read buffers for outgoing connections, not for accepted ones, so this function tests them.
 * Tested: bytes arrive; they arrive at the stream once there is no reader; the end arrives; the server notices the
 * close.
 */
export function canShareReads(): Promise<boolean> {
  tried ??= tryOnLoopback(tryIt);
  return tried;
}

let tried: Promise<boolean> | undefined;

async function tryIt({ server, caller, accepted, noted }: SocketPair): Promise<boolean> {
  caller.write("a");
  caller.once("data", () => caller.end("b"));
  const said = await saidOver(noted(sharedSocketOf(accepted, server)));
  server.close();
  await once(server, "close");
  return said === "ab";
}

/** Returns all bytes until the end; the first must come in the shared buffer. */
function saidOver(socket: SharedSocket): Promise<string> {
  let said = "";
  return new Promise((resolve, reject) => {
    socket.readBy({
      nextBuffer: () => undefined,
      readEnd() {},
      read(length, buffer) {
        said += buffer === shared ? shared.toString("latin1", 0, length) : "?";
        socket.readBy(undefined);
        socket.write(".");
        return true;
      },
    });
    socket.on("data", (bytes) => {
      said += String(bytes);
      // The reader was skipped: fail now, since no reply was sent and the rest would never come.
      if (said === "a") reject(new Error("the buffer was ignored"));
    });
    socket.on("end", () => void socket.end(() => resolve(said))).on("error", reject);
  });
}
