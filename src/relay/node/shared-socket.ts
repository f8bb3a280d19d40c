import { once } from "node:events";
import { type OnReadOpts, type Server, Socket, type SocketConstructorOpts } from "node:net";
import { type SocketPair, tryOnLoopback } from "./loopback-trial.ts";

/** Who reads a connection without a stream between. */
export interface SocketReader {
  /**
   * Nothing of `buffer` may be kept once this returns, unless it came from `nextBuffer`. Returns false where the socket
   * is no longer read by it: then what came is for the stream.
   */
  read(length: number, buffer: Buffer): boolean;
  /** Nothing more will come. */
  readEnd(): void;
  /** A buffer of the reader's own for what comes next; undefined: that which all share. */
  nextBuffer(): Buffer | undefined;
}

/** As much as Node reads at once. */
export const readBytes = 64 * 1024;
const shared = Buffer.allocUnsafeSlow(readBytes);

/**
 * A connection that a caller has opened, read into one buffer for all of them. Node gives each read 64 KiB of its own
 * and takes back what was too much: 1 of the 22 µs of a proxied request, and of several hundred connections that are
 * read in one turn of the loop, each in other memory, more.
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
    // The server counts those that are open, and ends with the last.
    Object.assign(this, { server, _server: server });
  }

  /** From now on by this one; by undefined: as any other socket. */
  readBy(reader: SocketReader | undefined): void {
    this.#reader = reader;
    this.#askForBuffers(reader);
  }

  /** Returns false when no more is wanted for now. */
  took(length: number, buffer: Buffer): boolean {
    if (this.#reader?.read(length, buffer) === true) return true;
    return this.push(Buffer.from(buffer.subarray(0, length)));
  }

  /** With null, Node says that the end has come: before the stream knows it, whoever reads does. */
  override push(bytes: Uint8Array | null): boolean {
    if (bytes === null) this.#reader?.readEnd();
    return super.push(bytes);
  }
}

/** One for all, told by Node whose bytes they are. */
function took(this: unknown, length: number, given: Uint8Array): boolean {
  // The buffer is that which all share, or a reader's own.
  return this instanceof SharedSocket && this.took(length, given as Buffer);
}

interface AcceptedSocket {
  readonly handle: unknown;
  readonly server: Server;
}

/** In place of a connection that was accepted a moment ago, and that nobody has listened to yet. */
export function sharedSocketOf(accepted: Socket, server: Server): SharedSocket {
  const inside = accepted as unknown as { _handle: unknown };
  const handle = inside._handle;
  inside._handle = null;
  return new SharedSocket({ handle, server });
}

/**
 * Node documents buffers of one's own for connections that one opens, and not for those that are accepted. So this is
 * tried before anybody relies on it: that bytes come, that they come to a stream once there is no reader, that the end
 * comes, and that the server knows it.
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

/** What came, the first of it into the shared buffer, until its end. */
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
      // Not read by us: then nobody has said a word, and the rest would be waited for in vain.
      if (said === "a") reject(new Error("the buffer was ignored"));
    });
    socket.on("end", () => void socket.end(() => resolve(said))).on("error", reject);
  });
}
