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
  /** That the session runs over. */
  readonly socket: Socket;
}

/**
 * A request over HTTP/2, as what reads requests of HTTP/1.1 reads it: without the fields that begin with a colon, and
 * with `Host` for `:authority`. Node has a layer for this as well; it shows those fields to everybody, writes one
 * value of several, and costs a third of a call.
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
      // Two that differ stay two, and are refused as such.
      if (headers.host !== authority) this.rawHeaders.unshift("host", authority);
      headers.host = authority;
    }
    this.headers = headers;
    const length = headers["content-length"];
    const isEnded = (flags & NGHTTP2_FLAG_END_STREAM) !== 0;
    this.body = isEnded || length === "0" ? "none" : length === undefined ? "chunked" : "length";
    // Of a stream that nobody reads, the end would never be seen.
    if (this.body === "none") stream.resume();
    stream.on("trailers", (_: StreamHeaders, __: number, raw: string[]) => {
      this.rawTrailers = raw;
    });
  }

  /** Whether all of it has been read. A reset ends what can be read as well. */
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

/** They come before all others. */
function plainFields(rawHeaders: readonly string[]): string[] {
  let at = 0;
  while (rawHeaders[at]?.startsWith(":") === true) at += 2;
  return rawHeaders.slice(at);
}

/** The answer to it, for what is answered here. What comes from a provider takes the stream itself. */
export class StreamResponse {
  readonly stream: ServerHttp2Stream;
  /** What is told and counted, also where HTTP says something else on the wire, as it does to gRPC. */
  statusCode = 200;
  /** Of the connection, a session says itself when it ends. */
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

  /** A reset finishes what can be written as well. */
  get writableFinished(): boolean {
    return this.#isEnded && this.stream.writableFinished && this.stream.rstCode === NGHTTP2_NO_ERROR;
  }

  /** Whether there was an answer to the end. */
  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Of an answer that somebody else has written. */
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

  /** The head is the whole answer, and HTTP has nothing to say about it: so gRPC wants it. */
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
    // RFC 9113, 8.2.2: of connections there is nothing to say here.
    for (const [name, value] of this.#fields) if (name !== "connection") fields[name] = value;
    this.stream.respond(fields as StreamHeaders, { endStream });
  }
}

/** RFC 9113, 8.1: the answer is complete; what is left of the request is for nobody, and nothing is wrong. */
export function endUnread({ stream, complete }: StreamRequest): void {
  if (!complete && !stream.destroyed) stream.close(NGHTTP2_NO_ERROR);
}
