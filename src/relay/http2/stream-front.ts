import type { IncomingHttpHeaders } from "node:http";
import { constants, type ServerHttp2Stream, type IncomingHttpHeaders as StreamHeaders } from "node:http2";
import type { Socket } from "node:net";

const { NGHTTP2_CANCEL, NGHTTP2_FLAG_END_STREAM, NGHTTP2_NO_ERROR } = constants;

export interface OpenedStream {
  readonly stream: ServerHttp2Stream;
  readonly headers: StreamHeaders;
  readonly flags: number;
  /** Name, value, name, value. */
  readonly rawHeaders: readonly string[];
  /** The socket of the session. */
  readonly socket: Socket;
}

/**
 * A request over HTTP/2 with the interface of an HTTP/1.1 request: without the pseudo-headers that begin with a
 * colon, and with `Host` for `:authority`. Node's compatibility layer shows pseudo-headers to every reader, writes
 * only one of several values, and costs a third of a call.
 */
export class StreamRequest {
  readonly stream: ServerHttp2Stream;
  readonly method: string;
  readonly url: string;
  readonly httpVersion = "2.0";
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: string[];
  rawTrailers: string[] = [];
  readonly socket: Socket;
  readonly body: "none" | "length" | "chunked";

  constructor({ stream, headers, flags, rawHeaders, socket }: OpenedStream) {
    this.stream = stream;
    this.socket = socket;
    this.method = headers[":method"] ?? "";
    this.url = headers[":path"] ?? "";
    this.rawHeaders = plainFields(rawHeaders);
    const authority = headers[":authority"];
    if (authority !== undefined) {
      // A differing `Host` and `:authority` stay two headers, and are refused as such.
      if (headers.host !== authority) this.rawHeaders.unshift("host", authority);
      headers.host = authority;
    }
    this.headers = headers;
    const length = headers["content-length"];
    const isEnded = (flags & NGHTTP2_FLAG_END_STREAM) !== 0;
    this.body = isEnded || length === "0" ? "none" : length === undefined ? "chunked" : "length";
    // Read the stream, or its end would never be seen.
    if (this.body === "none") stream.resume();
    stream.on("trailers", (_: StreamHeaders, __: number, raw: string[]) => {
      this.rawTrailers = raw;
    });
  }

  /** Whether the whole request has been read. A reset also ends reading. */
  get complete(): boolean {
    const { endAfterHeaders, readableEnded, aborted } = this.stream;
    return endAfterHeaders || (readableEnded && !aborted);
  }

  on(event: "data", listener: (bytes: Buffer) => void): this;
  on(event: "end" | "close", listener: () => void): this;
  on(event: "error", listener: (error: Error) => void): this;
  on(event: "data" | "end" | "close" | "error", listener: (given: never) => void): this {
    this.stream.on(event, listener as () => void);
    return this;
  }

  off(event: "data", listener: (bytes: Buffer) => void): this;
  off(event: "end" | "close", listener: () => void): this;
  off(event: "error", listener: (error: Error) => void): this;
  off(event: "data" | "end" | "close" | "error", listener: (given: never) => void): this {
    this.stream.off(event, listener as () => void);
    return this;
  }

  pause(): void {
    this.stream.pause();
  }

  resume(): void {
    this.stream.resume();
  }
}

/** Removes pseudo-headers, which come before all others. */
function plainFields(rawHeaders: readonly string[]): string[] {
  let at = 0;
  while (rawHeaders[at]?.startsWith(":") === true) at += 2;
  return rawHeaders.slice(at);
}

/** A response that Latchkey makes itself. A response from a provider uses the stream directly. */
export class StreamResponse {
  readonly stream: ServerHttp2Stream;
  /** The status for logs and metrics, even where HTTP carries another one, as for gRPC. */
  statusCode = 200;
  /** Ignored: an HTTP/2 session announces its own end. */
  shouldKeepAlive = true;
  readonly #request: StreamRequest;
  #isEnded = false;
  readonly #fields = new Map<string, number | string | readonly string[]>();

  constructor(request: StreamRequest) {
    this.#request = request;
    this.stream = request.stream;
  }

  get headersSent(): boolean {
    return this.stream.headersSent;
  }

  /** A reset also finishes writing. */
  get writableFinished(): boolean {
    return this.#isEnded && this.stream.writableFinished && this.stream.rstCode === NGHTTP2_NO_ERROR;
  }

  get writableNeedDrain(): boolean {
    return this.stream.writableNeedDrain;
  }

  /** Whether the response was complete. */
  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Marks the response as complete after other code has written to the stream. */
  ended(): void {
    this.#isEnded = true;
  }

  get destroyed(): boolean {
    return this.stream.destroyed || this.stream.closed;
  }

  get closed(): boolean {
    return this.destroyed;
  }

  setHeader(name: string, value: number | string | readonly string[]): this {
    this.#fields.set(name.toLowerCase(), value);
    return this;
  }

  getHeader(name: string): number | string | readonly string[] | undefined {
    return this.#fields.get(name.toLowerCase());
  }

  hasHeader(name: string): boolean {
    return this.#fields.has(name.toLowerCase());
  }

  writeHead(status: number): this {
    this.statusCode = status;
    return this;
  }

  flushHeaders(): void {
    if (!this.headersSent) this.#respond(this.statusCode, false);
  }

  write(content: string): boolean {
    this.flushHeaders();
    return this.stream.write(content);
  }

  end(content = ""): this {
    if (this.destroyed) return this;
    this.#isEnded = true;
    if (content === "" && !this.headersSent) {
      this.#respond(this.statusCode, true);
    } else {
      this.flushHeaders();
      this.stream.end(content);
    }
    endUnread(this.#request);
    return this;
  }

  /** Sends a response that is only a head, with HTTP status 200, as gRPC requires. */
  endWith(fields: Readonly<Record<string, string>>, statusCode: number): void {
    if (this.destroyed) return;
    this.#isEnded = true;
    this.statusCode = statusCode;
    for (const [name, value] of Object.entries(fields)) this.setHeader(name, value);
    this.#respond(200, true);
    endUnread(this.#request);
  }

  on(event: "close", listener: () => void): this {
    this.stream.on(event, listener);
    return this;
  }

  once(event: "close" | symbol, listener: () => void): this {
    this.stream.once(event, listener);
    return this;
  }

  off(event: "close" | symbol, listener: () => void): this {
    this.stream.off(event, listener);
    return this;
  }

  emit(event: symbol): boolean {
    return this.stream.emit(event);
  }

  destroy(): void {
    this.stream.close(NGHTTP2_CANCEL);
  }

  #respond(status: number, endStream: boolean): void {
    const fields: Record<string, number | string | readonly string[]> = { ":status": status };
    // RFC 9113, 8.2.2: HTTP/2 has no `Connection` header.
    for (const [name, value] of this.#fields) if (name !== "connection") fields[name] = value;
    this.stream.respond(fields as StreamHeaders, { endStream });
  }
}

/** RFC 9113, 8.1: the response is complete, so the rest of the request is discarded, without an error. */
export function endUnread({ stream, complete }: StreamRequest): void {
  if (!complete && !stream.destroyed) stream.close(NGHTTP2_NO_ERROR);
}
