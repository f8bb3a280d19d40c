import { once } from "node:events";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { getSystemErrorName } from "node:util";
import { type SocketPair, tryOnLoopback } from "./loopback-trial.ts";

/** The writer below a socket, with Node's undocumented names. */
interface Handle {
  /**
   * Returns 0 or an error number. The handle keeps bytes that cannot be written at once, together with the request.
   */
  writeLatin1String(request: WriteRequest, text: string): number;
}

interface WriteRequest {
  oncomplete?: (status: number) => void;
  /** -1 while the request is not in use. */
  getAsyncId(): number;
}

type WriteRequests = new () => WriteRequest;

/** Node copies larger texts once more, and larger texts may have to wait for the peer. */
const mostAtOnce = 16 * 1024;
const nothingUnderWay = -1;
/** Node's class of write requests; undefined: not tested, or not usable. */
let requests: WriteRequests | undefined;
/** A request that the handle did not keep can be reused. */
let spare: WriteRequest | undefined;
/** Handles that still hold bytes. */
const keeping = new WeakSet<Handle>();

/**
 * Writes a text, with one character a byte, without the stream of the socket. The stream makes a request object, a
 * pending-write record and an extra tick for each of the two writes of a proxied request: 1 to 2 of its 22 µs. Bytes
 * that wait in the stream, or in the handle, go first.
 */
export function writeText(socket: Socket, text: string): void {
  if (requests === undefined || !writeAtOnce(socket, text, requests)) socket.write(text, "latin1");
}

/** Returns whether written bytes have not been sent yet. */
export function hasUnsent(socket: Socket): boolean {
  const handle = handleOf(socket);
  return socket.writableLength > 0 || (handle !== null && keeping.has(handle));
}

function writeAtOnce(socket: Socket, text: string, Request: WriteRequests): boolean {
  if (text.length > mostAtOnce || socket.writableLength > 0 || socket.writableCorked > 0) return false;
  if (!socket.writable || socket.connecting || socket instanceof TLSSocket) return false;
  const handle = handleOf(socket);
  if (handle === null || keeping.has(handle)) return false;
  const request = spare ?? new Request();
  spare = undefined;
  const status = handle.writeLatin1String(request, text);
  if (status !== 0) socket.destroy(errorOf(status));
  // Check the request, not the queue size of the handle: the queue is empty if the kernel took the rest a moment
  // later, but the request completes only in the next tick. A second text with this request before that would end the
  // process.
  else if (request.getAsyncId() === nothingUnderWay) spare = request;
  else keep(socket, handle, request);
  return true;
}

function keep(socket: Socket, handle: Handle, request: WriteRequest): void {
  keeping.add(handle);
  request.oncomplete = (status) => {
    keeping.delete(handle);
    if (status < 0) socket.destroy(errorOf(status));
  };
}

const handleOf = (socket: Socket): Handle | null => (socket as unknown as { readonly _handle: Handle | null })._handle;

/** Creates the same error as Node does for a write. */
function errorOf(status: number): Error {
  const code = getSystemErrorName(status);
  return Object.assign(new Error(`write ${code}`), { errno: status, code, syscall: "write" });
}

let tried: Promise<boolean> | undefined;

/** Tests this Node version. Once the test passes, texts are written directly. */
export function canWriteTexts(): Promise<boolean> {
  tried ??= tryOnLoopback(tryIt);
  return tried;
}

async function tryIt({ caller, accepted }: SocketPair): Promise<boolean> {
  let said = "";
  caller.on("data", (bytes) => {
    said += String(bytes);
  });
  const found = requestsOf(accepted, "a");
  await new Promise((resolve) => accepted.write("b", resolve));
  if (found === undefined || new found().getAsyncId() !== nothingUnderWay) return false;
  if (!writeAtOnce(accepted, "c", found)) return false;
  accepted.end("d");
  await once(caller, "end");
  if (said === "abcd") requests = found;
  return requests !== undefined;
}

/** Returns the class of the stream's own write requests, observed while the stream writes this text. */
function requestsOf(socket: Socket, text: string): WriteRequests | undefined {
  const handle = handleOf(socket);
  if (handle === null) return undefined;
  const write = handle.writeLatin1String;
  let seen: WriteRequest | undefined;
  handle.writeLatin1String = (request, given) => {
    seen = request;
    return write.call(handle, request, given);
  };
  socket.write(text, "latin1");
  handle.writeLatin1String = write;
  return seen?.constructor as WriteRequests | undefined;
}
