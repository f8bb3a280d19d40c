import type { Exchange, UpstreamRequest } from "./exchange.ts";
import { RelayFailure } from "./failure.ts";
import type { CarriedRequest, Connection, ResponseReceiver } from "./http1/connection.ts";
import type { StreamedRequest } from "./http2/session.ts";

/** Of a body that has gone over HTTP/2: kept for as long as the provider may say that it has not looked at it. */
const maxKeptBytes = 16 * 1024;
/** Safe to send again when it is unknown whether it arrived (RFC 9110, 9.2.2), and asking for nothing but an answer. */
const repeatable = new Set(["GET", "HEAD", "OPTIONS"]);

export const isRepeatable = ({ mayRepeat, body, method }: UpstreamRequest): boolean =>
  mayRepeat === true || (body === "none" && repeatable.has(method));

/** What a request that is under way may ask of those who send it. */
export interface Routes {
  giveUp(going: PendingRequest): void;
  /** Over HTTP/1.1, though it would have gone over HTTP/2. */
  fallBack(going: PendingRequest): void;
}

/**
 * A request that is under way, in whichever protocol: what of it must wait is kept here, and what may be needed again.
 */
export class PendingRequest implements CarriedRequest, Exchange, StreamedRequest {
  readonly receiver: ResponseReceiver;
  readonly isHead: boolean;
  readonly request: UpstreamRequest;
  isSent: boolean;
  waitingSince = 0;
  connection: Connection | undefined;
  /** To a connection that is gone. */
  wasGiven = false;
  /** It goes over HTTP/2. */
  #stream: Exchange | undefined;
  readonly #routes: Routes;
  /** What there is of the body, while it waits for a connection, or may need another one. */
  #early: Buffer[] | undefined;
  /** How much of it went over HTTP/2; more than is kept, and it is not kept. */
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
      this.receiver.onFailure(
        new RelayFailure("no_http2", "what follows a body of a known length can go over HTTP/2 alone"),
      );
    }
    if (this.request.body !== "chunked" || this.connection === undefined) return;
    let last = "0\r\n";
    for (let i = 0; i < trailers.length; i += 2) last += `${trailers[i]}: ${trailers[i + 1]}\r\n`;
    this.connection.write(`${last}\r\n`);
  }

  /** It has waited, and goes on over this connection. */
  goOn(connection: Connection): void {
    this.connection = connection;
    connection.carry(this, this.request.head);
    this.#writeEarly();
  }

  stood(): void {
    if (this.request.mayRepeat !== true) this.#early = undefined;
  }

  /** The same, over HTTP/2. */
  goOver(stream: Exchange): void {
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
    // A copy: it may be a small part of a large buffer.
    else if (this.#streamedBytes <= maxKeptBytes) this.#hold(Buffer.from(bytes));
    else this.#early = undefined;
  }
}
