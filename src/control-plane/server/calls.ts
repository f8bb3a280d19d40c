import type { IncomingMessage } from "node:http";
import http2, { type Http2ServerRequest } from "node:http2";
import type { Socket } from "node:net";
import {
  type ConnectRouterOptions,
  createConnectRouter,
  createContextValues,
  type HandlerContext,
  type Interceptor,
} from "@connectrpc/connect";
import type { UniversalHandler, UniversalServerResponse } from "@connectrpc/connect/protocol";
import { compressionGzip, universalRequestFromNodeRequest } from "@connectrpc/connect-node";
import { Fault } from "../../base/fault.ts";
import { acceptedSocketOf } from "../../base/http/http2-sessions.ts";
import { createPerSecond, maxHintsPerSecond } from "../../base/per-second.ts";
import { hintOf } from "../../base/similar.ts";
import { boundBody } from "./body-deadline.ts";
import { callPeerOf, peerKey } from "./call-peer.ts";
import type { Gate } from "./gate.ts";
import { createMethodHandlers, type ServiceRoutes } from "./method-handlers.ts";
import { type NodeResponse, readerKey, type WatchedSlowReader, watchReader } from "./slow-readers.ts";

/** Node's requests over HTTP/1.1 and HTTP/2. */
export type NodeRequest = IncomingMessage | Http2ServerRequest;

const socketOf = (request: NodeRequest): Socket | undefined =>
  "stream" in request ? acceptedSocketOf(request) : request.socket;

/** The body of a call with one request message, or of any call without a key, must go on within this time. */
const bodyMs = 30_000;

export interface Handlers {
  readonly routes: ServiceRoutes;
  /** Checks each call before its body is read. */
  readonly gate: Gate;
  readonly interceptors: readonly Interceptor[];
}

interface CallsOptions extends Handlers {
  readonly maxMessageBytes: number;
  /** How long a client may leave its response unread. */
  readonly stallMs: number;
}

/** Answers a call. Resolves with a fault if no method accepts it; then nothing was answered. */
export type Calls = (request: NodeRequest, response: NodeResponse) => Promise<Fault | undefined>;

/** Returns the header that announces accepted compressions in each protocol. */
function acceptHeader({ protocolName, method }: HandlerContext): string {
  if (protocolName !== "connect") return "grpc-accept-encoding";
  return method.methodKind === "unary" ? "accept-encoding" : "connect-accept-encoding";
}

/** Connects the methods to Node's requests, in all three protocols. */
export function createCalls(options: CallsOptions): Calls {
  const { routes, gate, interceptors, maxMessageBytes, stallMs } = options;
  const routerOptions: ConnectRouterOptions = {
    requestGate(context) {
      // The library sets the header only when it refuses another compression, and then loses it.
      context.responseHeader.set(acceptHeader(context), compressionGzip.name);
      return gate(context);
    },
    interceptors: [...interceptors],
    // No Brotli: at zlib's default quality, a page of a megabyte would occupy for seconds one of the four threads that
    // the store needs.
    acceptCompression: [compressionGzip],
    // Unknown fields are a mistake of the caller, so they are refused.
    jsonOptions: { ignoreUnknownFields: false },
  };
  const createRouter = (readMaxBytes: number) => createConnectRouter({ ...routerOptions, readMaxBytes });
  const handlers = createMethodHandlers({ routes, createRouter, maxMessageBytes });

  async function answer(handler: UniversalHandler, request: NodeRequest, response: NodeResponse): Promise<void> {
    // Write errors are handled where the write is awaited.
    response.on("error", () => {});
    const reader = watchReader(response, { stallMs });
    const values = createContextValues()
      .set(readerKey, reader)
      .set(peerKey, callPeerOf(socketOf(request)));
    const universal = universalRequestFromNodeRequest(request, response, undefined, values);
    const body = boundBody(universal.body as AsyncIterable<Uint8Array>, { method: handler.method, bodyMs });
    const answered = await handler({ ...universal, body });
    if (!request.complete) leaveUnread(response);
    await send({ answered, response, reader });
  }

  return async (request, response) => {
    const [path = ""] = (request.url ?? "").split("?");
    const handler = handlers.of(path);
    if (handler === undefined) return noSuchMethod(path, handlers.paths);
    const fault = mismatch(handler, request);
    if (fault === undefined) await answer(handlers.second(path, request.headers) ?? handler, request, response);
    return fault;
  };
}

const maxComparedLength = 200;
const mayLook = createPerSecond(maxHintsPerSecond);

function noSuchMethod(path: string, known: Iterable<string>): Fault {
  const hint = path.length > maxComparedLength || !mayLook() ? undefined : hintOf(path, known);
  return new Fault("not_found", "no such method", { hint });
}

function mismatch(handler: UniversalHandler, { method = "", url = "", headers }: NodeRequest): Fault | undefined {
  if (!handler.allowedMethods.includes(method)) {
    const allow = handler.allowedMethods.join(", ");
    return new Fault("method_not_allowed", `the method must be one of ${allow}`, { metadata: { allow } });
  }
  if (method === "GET" && !/[?&]encoding=/.test(url)) {
    const message = "send a POST with Content-Type: application/json, or the parameters encoding and message";
    return new Fault("unsupported_media_type", message);
  }
  if (method === "GET" || handler.supportedContentType(headers["content-type"] ?? "")) return undefined;
  return new Fault(
    "unsupported_media_type",
    "send Content-Type: application/json, application/proto, application/grpc or application/grpc-web, as the method supports",
  );
}

interface ResponseSending {
  readonly answered: UniversalServerResponse;
  readonly response: NodeResponse;
  readonly reader: WatchedSlowReader;
}

async function send({ answered: { status, header, body, trailer }, response, reader }: ResponseSending): Promise<void> {
  const chunks = body?.[Symbol.asyncIterator]();
  // Wait for the first chunk before sending the head: until then, a method may still set headers.
  let chunk = await chunks?.next();
  for (const [name, value] of header ?? []) response.setHeader(name, value);
  // Sent separately: a head that Node sends with the end of a response leaves no room for trailers.
  if ("stream" in response) response.writeHead(status);
  else response.writeHead(status);
  while (chunk !== undefined && chunk.done !== true) {
    for (const piece of piecesOf(chunk.value)) {
      const gone = write(response, piece) ? undefined : await reader.untilDrained();
      if (gone === undefined) continue;
      // Tell the producer that the response is not read, so that it frees its resources.
      chunks?.throw?.(gone).catch(() => undefined);
      return;
    }
    chunk = await chunks?.next();
  }
  if (trailer !== undefined) response.addTrailers(Object.fromEntries(trailer));
  response.end();
  await reader.untilClosed();
}

/** Cuts a response that cannot be completed, so that its client knows. */
export function cut(response: NodeResponse): void {
  if ("stream" in response) response.stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR);
  else response.destroy();
}

/** Small enough that a client which reads none of it for a while is certainly not reading. */
const pieceBytes = 64 * 1024;

function* piecesOf(bytes: Uint8Array): Iterable<Uint8Array> {
  for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes);
}

/** Does not wait for the unread rest of a request: its stream or connection ends with the response. */
export function leaveUnread(response: NodeResponse): void {
  if (!("stream" in response)) {
    response.setHeader("connection", "close");
    return;
  }
  const { stream } = response;
  // One tick after the trailers: earlier, they would not be sent.
  stream.once("wantTrailers", () => setImmediate(() => stream.close(http2.constants.NGHTTP2_NO_ERROR)));
}

// Two signatures that TypeScript cannot unify.
const write = (response: NodeResponse, chunk: Uint8Array): boolean =>
  "stream" in response ? response.write(chunk) : response.write(chunk);
