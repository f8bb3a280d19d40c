import type { Exchange, UpstreamRequest } from "./exchange.ts";
import { RelayFailure } from "./failure.ts";
import type { Connection } from "./http1/connection.ts";
import type { CarriedRequest } from "./http1/connection-owner.ts";
import type { StreamedRequest } from "./http2/streamed-request.ts";
import type { ResponseReceiver } from "./response-receiver.ts";

/**
 * Limits the body bytes kept after sending over HTTP/2: the provider may still report that the request was not
 * processed.
 */
const maxKeptBytes = 16 * 1024;
/**
 * Methods that are safe to repeat when it is unknown whether the request arrived (RFC 9110, 9.2.2), and that only ask
 * for a response.
 */
const repeatable = new Set(["GET", "HEAD", "OPTIONS"]);

export const isRepeatable = ({ mayRepeat, body, method }: UpstreamRequest): boolean =>
  mayRepeat === true || (body === "none" && repeatable.has(method));

/** Callbacks of a request in progress to its sender. */
export interface Routes {
  giveUp(pending: PendingRequest): void;
  /** Sends the request over HTTP/1.1 although HTTP/2 was preferred. */
  fallBack(pending: PendingRequest): void;
}

/** A request in progress, in either protocol. Keeps the parts that must wait, and those that may be needed again. */
export class PendingRequest implements CarriedRequest, Exchange, StreamedRequest {
  readonly receiver: ResponseReceiver;
  readonly isHead: boolean;
  readonly request: UpstreamRequest;
  isSent: boolean;
  waitingSince = 0;
  connection: Connection | undefined;
  /** The request was given to a connection that has closed. */
  wasGiven = false;
  /** Set while the request goes over HTTP/2. */
  #stream: Exchange | undefined;
  readonly #routes: Routes;
  /** Body bytes that wait for a connection, or may be needed for another one. */
  #early: Buffer[] | undefined;
  /** Body bytes sent over HTTP/2. Above the limit, the body is no longer kept. */
  #streamedBytes = 0;
  #startedOver = false;
  #trailers: readonly string[] | undefined;
  #isOver = false;

  constructor(request: UpstreamRequest, receiver: ResponseReceiver, routes: Routes) {
    this.request = request;
    this.receiver = receiver;
    this.isHead = request.method === "HEAD";
    this.isSent = request.body === "none";
    this.#routes = routes;
  }

  get mayHaveArrived(): boolean {
    return this.wasGiven || (this.#stream?.mayHaveArrived ?? this.connection?.isConnecting === false);
  }

  write(bytes: Buffer): boolean {
    const { connection } = this;
    if (bytes.length === 0 || this.#isOver) return true;
    if (this.#stream !== undefined) {
      this.#keep(bytes);
      return this.#stream.write(bytes);
    }
    if (connection === undefined || connection.isConnecting || this.request.mayRepeat === true) this.#hold(bytes);
    if (connection === undefined) return false;
    if (this.request.body !== "chunked") return connection.write(bytes);
    connection.cork();
    connection.write(`${bytes.length.toString(16)}\r\n`);
    connection.write(bytes);
    const takesMore = connection.write("\r\n");
    connection.uncork();
    return takesMore;
  }

  end(trailers: readonly string[]): void {
    this.isSent = true;
    this.#trailers = trailers;
    if (this.#stream !== undefined) {
      this.#stream.end(trailers);
      return;
    }
    if (trailers.length > 0 && this.request.body === "length") {
      this.abort();
      this.receiver.onFailure(new RelayFailure("no_http2", "trailers after a body of known length require HTTP/2"));
    }
    if (this.request.body !== "chunked" || this.connection === undefined) return;
    let last = "0\r\n";
    for (let i = 0; i < trailers.length; i += 2) last += `${trailers[i]}: ${trailers[i + 1]}\r\n`;
    this.connection.write(`${last}\r\n`);
  }

  /** Continues on this connection after the wait. */
  continueOn(connection: Connection): void {
    this.connection = connection;
    connection.carry(this, this.request.head);
    this.#writeEarly();
  }

  connected(): void {
    if (this.request.mayRepeat !== true) this.#early = undefined;
  }

  /** Continues on this HTTP/2 stream after the wait. */
  continueOver(stream: Exchange): void {
    this.#stream = stream;
    const isWaiting = this.#early !== undefined && !this.isSent;
    this.#streamedBytes = 0;
    this.#writeEarly();
    if (isWaiting) this.receiver.onDrain();
  }

  fallBack(): void {
    this.#stream = undefined;
    this.#routes.fallBack(this);
  }

  startOver(unprocessed: boolean): boolean {
    const isWhole = this.#streamedBytes <= maxKeptBytes || this.request.mayRepeat === true;
    const may = !this.#startedOver && isWhole && (unprocessed || isRepeatable(this.request));
    if (!may || this.#isOver) return false;
    this.#startedOver = true;
    if (!unprocessed) this.wasGiven = true;
    this.#stream = undefined;
    return true;
  }

  resume(): void {
    if (this.#stream === undefined) this.connection?.resume();
    else this.#stream.resume();
  }

  abort(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.#stream === undefined) {
      this.#routes.giveUp(this);
    } else {
      this.wasGiven = this.mayHaveArrived;
      this.#stream.abort();
    }
  }

  #hold(bytes: Buffer): void {
    this.#early ??= [];
    this.#early.push(bytes);
  }

  #writeEarly(): void {
    const early = this.#early;
    this.#early = undefined;
    if (early !== undefined) for (const bytes of early) this.write(bytes);
    if (this.#trailers !== undefined) this.end(this.#trailers);
  }

  #keep(bytes: Buffer): void {
    this.#streamedBytes += bytes.length;
    if (this.request.mayRepeat === true) this.#hold(bytes);
    // Copied: the bytes may be a small part of a large buffer.
    else if (this.#streamedBytes <= maxKeptBytes) this.#hold(Buffer.from(bytes));
    else this.#early = undefined;
  }
}
