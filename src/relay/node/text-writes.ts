import { once } from "node:events";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { getSystemErrorName } from "node:util";
import { type SocketPair, tryOnLoopback } from "./loopback-trial.ts";

/** Under a socket, what writes: named as Node names it, which documents none of it. */
interface Handle {
  /** 0, or the number of an error. What does not go at once, it keeps, and the request with it. */
  writeLatin1String(request: WriteRequest, text: string): number;
}

interface WriteRequest {
  oncomplete?: (status: number) => void;
  /** -1 while nothing is under way with it. */
  getAsyncId(): number;
}

type WriteRequests = new () => WriteRequest;

/** Larger ones Node copies once more, and they may wait for whoever reads. */
const mostAtOnce = 16 * 1024;
const nothingUnderWay = -1;
/** Of Node; undefined: it was not tried, or does not do. */
let requests: WriteRequests | undefined;
/** One that was not kept can be used again. */
let spare: WriteRequest | undefined;
/** Those that have kept something. */
const keeping = new WeakSet<Handle>();

/**
 * Writes a text, with one character a byte, without the stream that stands before a socket: that makes a request, a
 * note of what is under way and a turn of its own for each of the two writes of a proxied request, 1 to 2 of its 22 µs.
 * Whatever waits in the stream, or under it, goes first.
 */
export function writeText(socket: Socket, text: string): void {
  if (requests === undefined || !writeAtOnce(socket, text, requests)) socket.write(text, "latin1");
}

/** Whether something that was written has not left. */
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
  // Not by what waits under the handle: where the kernel took the rest a moment later nothing does, and the request is
  // told so in the next turn. With a second text before that, it would end the process.
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

/** As Node has them of a write. */
function errorOf(status: number): Error {
  const code = getSystemErrorName(status);
  return Object.assign(new Error(`write ${code}`), { errno: status, code, syscall: "write" });
}

let tried: Promise<boolean> | undefined;

/** From when it has found out that this Node does so, texts are written so. */
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

/** What the stream itself makes its requests of, seen as it writes this text. */
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
