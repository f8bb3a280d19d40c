import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { mistakeInHttp1, mistakeInMethod } from "../../base/http/framing.ts";
import type { Memo } from "../../base/memo.ts";
import { StreamRequest } from "../http2/stream-front.ts";

/** The head of a client's request, for every parser: names are those of `IncomingMessage`. */
export interface FrontHead extends Pick<IncomingMessage, "method" | "url" | "httpVersion" | "socket"> {
  /** Headers by lower-case name: all of them, or all that the code reads. */
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  /** A cache for values derived from these headers: the next request may have the same headers and the same cache. */
  readonly memo?: Memo;
}

/** The used part of a client's request: Node's own over HTTP/1, or an HTTP/2 stream with the same interface. */
export interface FrontRequest extends FrontHead, Pick<IncomingMessage, "rawTrailers" | "complete" | "destroyed"> {
  on(event: "data", listener: (bytes: Buffer) => void): this;
  on(event: "end" | "close", listener: () => void): this;
  on(event: "error", listener: (error: Error) => void): this;
  off(event: "data", listener: (bytes: Buffer) => void): this;
  off(event: "end" | "close", listener: () => void): this;
  off(event: "error", listener: (error: Error) => void): this;
  pause(): unknown;
  resume(): unknown;
}

/** The used part of a response, for both protocols. */
export interface FrontResponse
  extends Pick<
    ServerResponse,
    "statusCode" | "headersSent" | "writableFinished" | "writableNeedDrain" | "destroyed" | "closed" | "shouldKeepAlive"
  > {
  setHeader(name: string, value: number | string | readonly string[]): unknown;
  getHeader(name: string): number | string | readonly string[] | undefined;
  hasHeader(name: string): boolean;
  writeHead(status: number): { end(): unknown };
  flushHeaders(): void;
  /** Cuts the response off at any point. */
  destroy(): unknown;
  write(content: string | Buffer): boolean;
  /** Bytes may be shared by many responses. */
  end(content?: string | Buffer): unknown;
  on(event: "close", listener: () => void): unknown;
  once(event: "close" | symbol, listener: () => void): this;
  off(event: "close" | symbol, listener: () => void): this;
  emit(event: symbol): boolean;
}

/**
 * Rejects requests that `node:http` accepts and a relay must not: those that the next parser could read differently.
 * Returns the reason, or undefined. HTTP/2 does its own framing, and `callerHeadOf` has checked the head.
 */
export const mistakeInFraming = (request: FrontHead): string | undefined =>
  request instanceof StreamRequest ? mistakeInMethod(request.method) : mistakeInHttp1(request);

/** Checks the class, not the version: an HTTP/1.1 request may write any version into its first line. */
export const isStream = (request: FrontHead): boolean => request instanceof StreamRequest;

/** Returns how the body is framed, for reading and for forwarding. */
export function bodyOf(request: FrontHead): "none" | "length" | "chunked" {
  if (request instanceof StreamRequest) return request.body;
  const { headers } = request;
  if (headers["transfer-encoding"] !== undefined) return "chunked";
  return (headers["content-length"] ?? "0") === "0" ? "none" : "length";
}
