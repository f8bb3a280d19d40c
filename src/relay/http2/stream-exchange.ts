import type { LiveMember } from "../../base/live-set.ts";
import type { Exchange } from "../exchange.ts";
import { RelayFailure } from "../failure.ts";
import type { Framing } from "../http1/response-head.ts";
import type { ResponseReceiver } from "../response-receiver.ts";
import { areTrailers, headOfStream, lowerCaseNames, streamHeadOf, withoutBlanks } from "./stream-head.ts";
import type { StreamedRequest } from "./streamed-request.ts";
import { errorCodes, errorName } from "./wire/error-codes.ts";
import type { FieldBlock } from "./wire/hpack-decoder.ts";
import type { WireConnection } from "./wire/wire-connection.ts";
import type { StreamOwner, WireStream } from "./wire/wire-stream.ts";

/** Callbacks of a session for its streams. */
export interface SessionCallbacks {
  /**
   * The stream has closed. `unanswered`: no response came, and the stream ended with this code. Returns whether the
   * request continues elsewhere; then its receiver gets no callback.
   */
  over(exchange: StreamExchange, unanswered: RefusedStream | undefined): boolean;
  /** Returns why the session has ended, if it has. */
  failure(): RelayFailure | undefined;
}

export interface RefusedStream {
  readonly streamId: number;
  readonly code: number;
}

interface StreamExchangeOptions {
  readonly session: WireConnection;
  readonly pending: StreamedRequest;
  readonly carrying: SessionCallbacks;
  readonly nowMs: number;
}

const maxInformational = 100;

/** A request on its own stream. A class for the same reason as `Connection`. */
export class StreamExchange implements Exchange, StreamOwner, LiveMember {
  place = -1;
  readonly pending: StreamedRequest;
  readonly #stream: WireStream;
  readonly #receiver: ResponseReceiver;
  readonly #carrying: SessionCallbacks;
  readonly #isHead: boolean;
  readonly #isGrpc: boolean;
  /** Counts every activity. */
  activity = 0;
  #activityBefore = -1;
  #idleSince: number;
  isSent: boolean;
  #hasAnswered = false;
  #framing: Framing = "none";
  #received = 0;
  #informational = 0;
  #isOver = false;
  #trailers: readonly string[] = [];

  /** Throws when the request's head cannot be sent over HTTP/2. */
  constructor({ session, pending, carrying, nowMs }: StreamExchangeOptions) {
    const { request, receiver } = pending;
    const { head, method, origin, body, isGrpc = false, sensitive = none } = request;
    this.pending = pending;
    this.#idleSince = nowMs;
    this.#receiver = receiver;
    this.#carrying = carrying;
    this.#isHead = method === "HEAD";
    this.#isGrpc = isGrpc;
    this.isSent = body === "none";
    // RFC 7541, 7.1.3: a session carries many users' requests, so compression must not reveal secrets. Sensitive headers
    // are not indexed.
    const neverIndexed = sensitive.length === 0 ? usualSecrets : [...usualSecrets, ...sensitive];
    this.#stream = session.open(this, streamHeadOf(head, origin.scheme), body === "none", neverIndexed);
  }

  /** Returns for how long nothing has happened. It notices activity only when it is called. */
  idleMs(nowMs: number): number {
    if (this.activity !== this.#activityBefore) {
      this.#activityBefore = this.activity;
      this.#idleSince = nowMs;
    }
    return nowMs - this.#idleSince;
  }

  /** A stream begins with its head, which leaves in the same tick. */
  get mayHaveArrived(): boolean {
    return true;
  }

  get isAwaitingAnswer(): boolean {
    // A gRPC stream is answered when the server has data: a long wait means nothing.
    return this.isSent && !this.#hasAnswered && !this.#isGrpc;
  }

  write(bytes: Buffer): boolean {
    this.activity += 1;
    return this.#isOver || this.#stream.write(bytes, false);
  }

  end(trailers: readonly string[]): void {
    this.isSent = true;
    this.activity += 1;
    this.#stream.end(lowerCaseNames(trailers));
  }

  resume(): void {
    this.activity += 1;
    this.#stream.resume();
  }

  abort(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#stream.reset(errorCodes.cancel);
  }

  /** Fails the request and cancels its stream. */
  fail(failure: RelayFailure): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#stream.reset(errorCodes.cancel);
    this.#receiver.onFailure(failure);
  }

  onFields(block: FieldBlock, isEnd: boolean): void {
    if (this.#isOver) return;
    this.activity += 1;
    if (block.isTooLarge) {
      this.fail(new RelayFailure("malformed", "the response's headers are too large"));
    } else if (this.#hasAnswered) {
      if (isEnd && areTrailers(block)) this.#trailers = block.fields.map(withoutBlanks);
      else this.fail(new RelayFailure("malformed", "the response's trailers are malformed"));
    } else {
      this.#readHead(block, isEnd);
    }
  }

  onContent(content: Buffer): boolean {
    if (this.#isOver) return true;
    this.activity += 1;
    this.#received += content.length;
    const most = typeof this.#framing === "number" ? this.#framing : this.#framing === "none" ? 0 : Infinity;
    if (!this.#hasAnswered || this.#received > most) {
      const kind = this.#hasAnswered ? "cut_off" : "malformed";
      this.fail(new RelayFailure(kind, "the response has content that its head does not allow"));
      return true;
    }
    return content.length === 0 || this.#receiver.onContent(content, undefined);
  }

  onEnd(): void {
    if (this.#isOver || !this.#hasAnswered) return;
    // Applies to streams without an error code, too.
    if (typeof this.#framing === "number" && this.#received !== this.#framing) {
      this.fail(new RelayFailure("cut_off", "the response is shorter than its content-length"));
      return;
    }
    this.#isOver = true;
    const { isSent } = this;
    this.#receiver.onEnd(this.#trailers);
    // The provider has answered before it received the whole request.
    if (!isSent) this.#stream.reset(errorCodes.noError);
  }

  onDrain(): void {
    if (!this.#isOver) this.#receiver.onDrain();
  }

  onClosed(code: number): void {
    // Node's server may send NO_ERROR in place of END_STREAM when the request was not read. Only a length shows that
    // such a response is complete.
    if (code === errorCodes.noError && this.#hasAnswered && this.#received === this.#framing) this.onEnd();
    const hasBegun = this.#hasAnswered || this.#informational > 0;
    const refused = this.#isOver || hasBegun ? undefined : { streamId: this.#stream.id, code };
    const isContinued = this.#carrying.over(this, refused);
    if (this.#isOver || isContinued) return;
    this.#isOver = true;
    const { kind, message, resetCode } = this.#carrying.failure() ?? failureOfReset(code);
    this.#receiver.onFailure(new RelayFailure(this.#hasAnswered ? "cut_off" : kind, message, { resetCode }));
  }

  #readHead(block: FieldBlock, isEnd: boolean): void {
    const head = headOfStream({ block, isHead: this.#isHead, isAll: isEnd });
    if (head === undefined || (head.status < 200 && isEnd)) {
      this.fail(new RelayFailure("malformed", "the response's headers are malformed"));
      return;
    }
    if (head.status < 200) {
      this.#informational += 1;
      if (this.#informational > maxInformational) {
        this.fail(new RelayFailure("malformed", "the provider sent too many informational responses"));
      } else if (head.status !== 100) {
        this.#receiver.onInformational(head);
      }
      return;
    }
    this.#hasAnswered = true;
    this.#framing = head.framing;
    this.#receiver.onHead(head, false);
  }
}

const none: readonly string[] = [];
const usualSecrets = ["authorization"];

/** A client would take NO_ERROR for the end of a complete response. */
const failureOfReset = (code: number): RelayFailure =>
  new RelayFailure("closed", `the provider reset the stream (${errorName(code)})`, {
    resetCode: code === errorCodes.noError ? errorCodes.internalError : code,
  });
