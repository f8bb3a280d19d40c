import { type IncomingHttpHeaders, validateHeaderValue } from "node:http";
import type { Socket } from "node:net";
import type { LiveMember } from "../../base/live-set.ts";
import { areCallerTrailers, type CallerHead } from "./callers/caller-head.ts";
import { httpDate } from "./callers/http-date.ts";
import { StreamEvents } from "./callers/stream-events.ts";
import { withoutBlanks } from "./stream-head.ts";
import { errorCodes } from "./wire/error-codes.ts";
import type { FieldBlock } from "./wire/hpack-decoder.ts";
import type { StreamOwner, WireStream } from "./wire/wire-stream.ts";

/** Receives what a request brings after its head, in place of listeners. */
export interface RequestReader {
  /** `content` is borrowed. Returns false when no more is wanted until the request is resumed. */
  take(content: Buffer): boolean;
  takeEnd(trailers: readonly string[]): void;
}

/** The session of requests. */
export interface StreamRequestOwner {
  /** Latchkey's own response is complete, and this much of it waits for the client. */
  hold(request: StreamRequest, bytes: number): void;
  /** The stream has closed. */
  over(request: StreamRequest): void;
}

/** Writes the response of a provider, and is told about the stream in place of listeners. */
export interface ResponseWriter {
  /** More can be written. */
  onRoom(): void;
  onClosed(): void;
}

/**
 * A request over HTTP/2 with the interface of an HTTP/1.1 request: without the pseudo-headers that begin with a
 * colon, and with `Host` for `:authority`.
 */
export class StreamRequest implements StreamOwner, LiveMember {
  place = -1;
  readonly method: string;
  readonly url: string;
  readonly httpVersion = "2.0";
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: string[];
  rawTrailers: string[] = [];
  readonly socket: Socket;
  readonly body: "none" | "length" | "chunked";
  /** Whether the whole request has been read. */
  complete: boolean;
  /** Bytes of Latchkey's own response that wait for the client. */
  heldBytes = 0;
  /** Unread bytes of a complete response at the last progress, and its time. */
  unreadBytes = 0;
  unreadSince = 0;
  /** Sees the response of a provider to its end. */
  writer: ResponseWriter | undefined = undefined;
  readonly events = new StreamEvents();
  readonly #contentLength: number | undefined;
  readonly owner: StreamRequestOwner;
  #received = 0;
  #reader: RequestReader | undefined = undefined;
  #stream: WireStream | undefined = undefined;
  /** The code that the stream has ended with. */
  closeCode: number | undefined = undefined;

  constructor(head: CallerHead, isEnd: boolean, socket: Socket, owner: StreamRequestOwner) {
    const { method, url, headers, rawHeaders, contentLength } = head;
    this.socket = socket;
    this.method = method;
    this.url = url;
    this.headers = headers;
    this.rawHeaders = rawHeaders as string[];
    this.#contentLength = contentLength;
    this.owner = owner;
    this.complete = isEnd;
    this.body = isEnd || contentLength === 0 ? "none" : contentLength === undefined ? "chunked" : "length";
  }

  get stream(): WireStream {
    if (this.#stream === undefined) throw new Error("the stream has not begun");
    return this.#stream;
  }

  get destroyed(): boolean {
    return this.stream.isClosed;
  }

  begin(stream: WireStream): void {
    this.#stream = stream;
    // Otherwise its end would never be seen.
    if (this.body === "none" && !this.complete) stream.resume();
  }

  on(event: "data", listener: (bytes: Buffer) => void): this;
  on(event: "end" | "close", listener: () => void): this;
  on(event: "error", listener: (error: Error) => void): this;
  on(event: "data" | "end" | "close" | "error", listener: (given: never) => void): this {
    this.events.add(event, listener as (given?: unknown) => void);
    if (event === "data") this.resume();
    return this;
  }

  off(event: "data", listener: (bytes: Buffer) => void): this;
  off(event: "end" | "close", listener: () => void): this;
  off(event: "error", listener: (error: Error) => void): this;
  off(event: "data" | "end" | "close" | "error", listener: (given: never) => void): this {
    this.events.remove(event, listener as (given?: unknown) => void);
    return this;
  }

  /** Gives everything to this reader. */
  readBy(reader: RequestReader): void {
    this.#reader = reader;
    this.resume();
  }

  pause(): void {
    this.stream.pause();
  }

  resume(): void {
    const { stream } = this;
    // What waits is given later: the sender may not be ready within this call.
    if (stream.hasReceived || stream.isRemoteEnded) process.nextTick(resumeNow, stream);
    else stream.resume();
  }

  // What the stream calls.

  onFields(block: FieldBlock, isEnd: boolean): void {
    if (block.isTooLarge) this.stream.refuse(errorCodes.enhanceYourCalm);
    else if (!isEnd || !areCallerTrailers(block)) this.stream.refuse(errorCodes.protocolError);
    else this.rawTrailers = block.fields.map(withoutBlanks);
  }

  onContent(content: Buffer): boolean {
    this.#received += content.length;
    if (this.#contentLength !== undefined && this.#received > this.#contentLength) {
      this.stream.refuse(errorCodes.protocolError);
      return true;
    }
    if (content.length === 0) return true;
    if (this.#reader !== undefined) return this.#reader.take(content);
    this.events.emit("data", Buffer.from(content));
    return true;
  }

  onEnd(): void {
    if (this.#contentLength !== undefined && this.#received !== this.#contentLength) {
      this.stream.refuse(errorCodes.protocolError);
      return;
    }
    this.complete = true;
    if (this.#reader !== undefined) this.#reader.takeEnd(this.rawTrailers);
    else this.events.emit("end");
  }

  onDrain(): void {
    if (this.writer !== undefined) this.writer.onRoom();
    else this.events.emit("drain");
  }

  onClosed(code: number): void {
    this.closeCode = code;
    this.owner.over(this);
    // Deferred: the code that ended the response may not be ready for its end within this call.
    process.nextTick(tellClosed, this);
  }
}

const resumeNow = (stream: WireStream): void => stream.resume();

function tellClosed(request: StreamRequest): void {
  request.writer?.onClosed();
  request.events.emit("close");
}

type FieldValue = number | string | readonly string[];

/** A response that Latchkey makes itself. A response from a provider uses the stream directly. */
export class StreamResponse {
  readonly stream: WireStream;
  /** The status for logs and metrics, even where HTTP carries another one, as for gRPC. */
  statusCode = 200;
  /** Ignored: an HTTP/2 session announces its own end. */
  shouldKeepAlive = true;
  headersSent = false;
  /** Whether the response was complete. */
  isEnded = false;
  readonly #request: StreamRequest;
  #fields: Map<string, FieldValue> | undefined = undefined;

  constructor(request: StreamRequest) {
    this.#request = request;
    this.stream = request.stream;
  }

  get writableFinished(): boolean {
    return this.isEnded && this.#request.closeCode === errorCodes.noError;
  }

  get writableNeedDrain(): boolean {
    return this.stream.needsDrain;
  }

  get destroyed(): boolean {
    return this.stream.isClosed;
  }

  get closed(): boolean {
    return this.stream.isClosed;
  }

  setHeader(name: string, value: FieldValue): this {
    for (const one of Array.isArray(value) ? value : [value]) validateHeaderValue(name, String(one));
    this.#fields ??= new Map();
    this.#fields.set(name.toLowerCase(), value);
    return this;
  }

  getHeader(name: string): FieldValue | undefined {
    return this.#fields?.get(name.toLowerCase());
  }

  hasHeader(name: string): boolean {
    return this.#fields?.has(name.toLowerCase()) === true;
  }

  writeHead(status: number): this {
    this.statusCode = status;
    return this;
  }

  flushHeaders(): void {
    if (!this.headersSent) this.#respond(this.statusCode, false);
  }

  /** Sends a head with no end but that of a request: 100 Continue, or 103 Early Hints. */
  inform(status: 100 | 103, fields: readonly string[] = []): void {
    if (!this.headersSent && !this.destroyed) this.stream.sendFields([":status", String(status), ...fields], false);
  }

  write(content: string | Buffer): boolean {
    this.flushHeaders();
    if (this.#request.method === "HEAD") return true;
    return this.stream.write(typeof content === "string" ? Buffer.from(content) : content, false);
  }

  /** `content`: bytes are shared by many responses, and never change. */
  end(content: string | Buffer = ""): this {
    if (this.destroyed) return this;
    this.isEnded = true;
    const { stream } = this;
    const isShared = typeof content !== "string";
    const hasBody = content.length > 0 && this.#request.method !== "HEAD";
    if (!this.headersSent) this.#respond(this.statusCode, !hasBody);
    if (hasBody) stream.write(isShared ? content : Buffer.from(content), false);
    stream.end([]);
    const waiting = isShared ? 0 : stream.unsentBytes;
    if (waiting > 0) this.#request.owner.hold(this.#request, waiting);
    return this;
  }

  /** Sends a response that is only a head, with HTTP status 200, as gRPC requires. */
  endWith(fields: Readonly<Record<string, string>>, statusCode: number): void {
    if (this.destroyed) return;
    this.isEnded = true;
    this.statusCode = statusCode;
    for (const [name, value] of Object.entries(fields)) this.setHeader(name, value);
    this.#respond(200, true);
  }

  on(event: "close" | "drain", listener: () => void): this {
    this.#request.events.add(event, listener);
    return this;
  }

  once(event: "close" | symbol, listener: () => void): this {
    this.#request.events.addOnce(event, listener);
    return this;
  }

  off(event: "close" | symbol, listener: () => void): this {
    this.#request.events.remove(event, listener);
    return this;
  }

  emit(event: symbol): boolean {
    return this.#request.events.emit(event);
  }

  destroy(): void {
    this.stream.reset(errorCodes.cancel);
  }

  #respond(status: number, isEnd: boolean): void {
    this.headersSent = true;
    const fields = [":status", String(status)];
    let hasDate = false;
    if (this.#fields !== undefined) {
      for (const [name, value] of this.#fields) {
        // RFC 9113, 8.2.2: HTTP/2 has no `Connection` header.
        if (name === "connection") continue;
        if (name === "date") hasDate = true;
        for (const one of Array.isArray(value) ? value : [value]) fields.push(name, String(one));
      }
    }
    if (!hasDate) fields.push("date", httpDate());
    this.stream.sendFields(fields, isEnd || isBodiless(status), neverIndexed);
  }
}

/** RFC 9110, 15: these have no content. */
export const isBodiless = (status: number): boolean => status === 204 || status === 205 || status === 304;

export const neverIndexed = ["set-cookie"];
