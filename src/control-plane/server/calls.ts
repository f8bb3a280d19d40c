import type { IncomingMessage } from "node:http";
import http2, { type Http2ServerRequest } from "node:http2";
import {
  type ConnectRouter,
  createConnectRouter,
  createContextValues,
  type HandlerContext,
  type Interceptor,
} from "@connectrpc/connect";
import type { UniversalHandler, UniversalServerResponse } from "@connectrpc/connect/protocol";
import { compressionGzip, universalRequestFromNodeRequest } from "@connectrpc/connect-node";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { boundBody } from "./body-deadline.ts";
import type { Gate } from "./gate.ts";
import { type NodeResponse, readerKey, type WatchedSlowReader, watchReader } from "./slow-readers.ts";

/** What Node hands over, of HTTP/1.1 and of HTTP/2. */
export type NodeRequest = IncomingMessage | Http2ServerRequest;

/** The body of a call with one request message, or of any call without a key, must go on within this time. */
const bodyMs = 30_000;

export interface Handlers {
  readonly routes: (router: ConnectRouter) => void;
  /** Judges each call before any of its body is read. */
  readonly gate: Gate;
  readonly interceptors: readonly Interceptor[];
}

interface CallsOptions extends Handlers {
  readonly maxMessageBytes: number;
  /** So long may a reader take nothing of its answer. */
  readonly stallMs: number;
  readonly world: World;
}

/** Answers a call. Returns why it is none, when no method takes it. */
export type Calls = (request: NodeRequest, response: NodeResponse) => Fault | undefined;

/** Where each protocol says which compressions are taken. */
function acceptHeader({ protocolName, method }: HandlerContext): string {
  if (protocolName !== "connect") return "grpc-accept-encoding";
  return method.methodKind === "unary" ? "accept-encoding" : "connect-accept-encoding";
}

/** Joins the methods to Node's requests, in all three protocols. */
export function createCalls(options: CallsOptions): Calls {
  const { routes, gate, interceptors, maxMessageBytes, stallMs, world } = options;
  const router = createConnectRouter({
    requestGate(context) {
      // The library says so only where it refuses another one, and then loses it on the way.
      context.responseHeader.set(acceptHeader(context), compressionGzip.name);
      return gate(context);
    },
    interceptors: [...interceptors],
    readMaxBytes: maxMessageBytes,
    // No Brotli: at zlib's default quality a page of a megabyte would hold one of the four threads that the store
    // needs for seconds.
    acceptCompression: [compressionGzip],
    // A field that we do not know is a mistake of the caller's, not something to pass over.
    jsonOptions: { ignoreUnknownFields: false },
  });
  routes(router);
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]));

  async function answer(handler: UniversalHandler, request: NodeRequest, response: NodeResponse): Promise<void> {
    // What goes wrong while sending is heard where it is waited for.
    response.on("error", () => {});
    const reader = watchReader(response, { stallMs });
    const values = createContextValues().set(readerKey, reader);
    const asked = universalRequestFromNodeRequest(request, response, undefined, values);
    const body = boundBody(asked.body as AsyncIterable<Uint8Array>, { method: handler.method, bodyMs });
    const answered = await handler({ ...asked, body });
    if (!request.complete) leaveUnread(response);
    await send({ answered, response, reader });
  }

  return (request, response) => {
    const [path = ""] = (request.url ?? "").split("?");
    const handler = handlers.get(path);
    const fault = mismatch(handler, request);
    if (handler === undefined || fault !== undefined) return fault;
    answer(handler, request, response).catch((err: unknown) => {
      world.metrics.unhandled.inc();
      world.log.error("a call could not be answered", { method: path, err });
      response.destroy();
    });
    return undefined;
  };
}

function mismatch(handler: UniversalHandler | undefined, { method = "", headers }: NodeRequest): Fault | undefined {
  if (handler === undefined) return new Fault("not_found", "there is no such method");
  if (!handler.allowedMethods.includes(method)) {
    const allow = handler.allowedMethods.join(", ");
    return new Fault("method_not_allowed", `the method must be one of ${allow}`, { metadata: { allow } });
  }
  if (method === "GET" || handler.supportedContentType(headers["content-type"] ?? "")) return undefined;
  return new Fault("unsupported_media_type", "the content type is none of gRPC, gRPC-Web or Connect for this method");
}

interface ResponseSending {
  readonly answered: UniversalServerResponse;
  readonly response: NodeResponse;
  readonly reader: WatchedSlowReader;
}

async function send({ answered: { status, header, body, trailer }, response, reader }: ResponseSending): Promise<void> {
  const chunks = body?.[Symbol.asyncIterator]();
  // The first chunk is awaited before the head is sent: until then a method may still set headers.
  let chunk = await chunks?.next();
  for (const [name, value] of header ?? []) response.setHeader(name, value);
  // By itself: a head that Node sends with the end of an answer leaves no room for trailers.
  if ("stream" in response) response.writeHead(status);
  else response.writeHead(status);
  while (chunk !== undefined && chunk.done !== true) {
    for (const piece of piecesOf(chunk.value)) {
      const gone = write(response, piece) ? undefined : await reader.untilDrained();
      if (gone === undefined) continue;
      // Whoever makes the answer is told that nobody takes it, and lets go of what it holds.
      chunks?.throw?.(gone).catch(() => undefined);
      return;
    }
    chunk = await chunks?.next();
  }
  if (trailer !== undefined) response.addTrailers(Object.fromEntries(trailer));
  response.end();
  await reader.untilClosed();
}

/** So small that a reader who takes none of it for a while takes nothing at all. */
const pieceBytes = 64 * 1024;

function* piecesOf(bytes: Uint8Array): Iterable<Uint8Array> {
  for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes);
}

/** What was not read of a request is not waited for: its stream, or its connection, ends with the answer. */
export function leaveUnread(response: NodeResponse): void {
  if (!("stream" in response)) {
    response.setHeader("connection", "close");
    return;
  }
  const { stream } = response;
  // In the turn after the trailers: sooner, and they would not go out any more.
  stream.once("wantTrailers", () => setImmediate(() => stream.close(http2.constants.NGHTTP2_NO_ERROR)));
}

// Two signatures that TypeScript does not join.
const write = (response: NodeResponse, chunk: Uint8Array): boolean =>
  "stream" in response ? response.write(chunk) : response.write(chunk);
