import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  constants,
  type IncomingHttpHeaders,
  sensitiveHeaders,
} from "node:http2";
import type { Exchange, UpstreamRequest } from "../exchange.ts";
import { RelayFailure } from "../failure.ts";
import type { Framing } from "../http1/response-head.ts";
import type { ResponseReceiver } from "../response-receiver.ts";
import { headOfStream, recordOf, streamHeadOf } from "./stream-head.ts";

const { NGHTTP2_FLAG_END_STREAM, NGHTTP2_CANCEL, NGHTTP2_NO_ERROR } = constants;

/** Callbacks of a session for its streams. */
export interface SessionCallbacks {
  /**
   * The stream has closed. `unanswered`: no response came, and the stream ended with this code. Returns whether the
   * request continues elsewhere; then its receiver gets no callback.
   */
  over(exchange: StreamExchange, unanswered: RefusedStream | undefined): boolean;
  /** Returns why the session has ended, if it has. `error`: the error that the streams received. */
  failure(error: Error | undefined): RelayFailure | undefined;
}

export interface RefusedStream {
  /** Undefined: the stream was never sent. */
  readonly streamId: number | undefined;
  readonly code: number;
}

interface StreamExchangeOptions {
  readonly session: ClientHttp2Session;
  readonly request: UpstreamRequest;
  readonly receiver: ResponseReceiver;
  readonly carrying: SessionCallbacks;
}

const maxInformational = 100;
/** Each read has its own buffer, which the receiver owns: there is nothing to release. */
const nothingToRelease = () => {};

/** A request on its own stream. A class for the same reason as `Connection`. */
export class StreamExchange implements Exchange {
  readonly #stream: ClientHttp2Stream;
  readonly #receiver: ResponseReceiver;
  readonly #carrying: SessionCallbacks;
  readonly #isHead: boolean;
  readonly #isGrpc: boolean;
  /** Counts every activity. */
  activity = 0;
  isSent: boolean;
  #hasAnswered = false;
  #error: Error | undefined;
  #framing: Framing = "none";
  #received = 0;
  #informational = 0;
  #isOver = false;
  #trailers: readonly string[] = [];
  #toSend: readonly string[] = [];

  constructor({ session, request, receiver, carrying }: StreamExchangeOptions) {
    const { head, method, origin, body, isGrpc = false, sensitive = [] } = request;
    this.#receiver = receiver;
    this.#carrying = carrying;
    this.#isHead = method === "HEAD";
    this.#isGrpc = isGrpc;
    this.isSent = body === "none";
    const fields = Object.assign(streamHeadOf(head, origin.scheme), {
      // RFC 7541, 7.1.3: a session carries many users' requests, so compression must not reveal secrets. Sensitive
      // headers are not indexed.
      [sensitiveHeaders]: ["authorization", ...sensitive],
    });
    const endStream = body === "none";
    // With `waitForTrailers`, a reset does not end the stream first; otherwise Node would report the request as
    // complete.
    const stream = session.request(fields, { endStream, waitForTrailers: !endStream });
    this.#stream = stream;
    stream.on("headers", (_: IncomingHttpHeaders, __: number, raw: string[]) => this.#informed(raw));
    stream.on("response", (_: IncomingHttpHeaders, flags: number, raw?: string[]) => this.#answered(raw ?? [], flags));
    stream.on("trailers", (_: IncomingHttpHeaders, __: number, raw?: string[]) => {
      this.#trailers = raw ?? [];
    });
    stream.on("data", (content: Buffer) => this.#read(content));
    stream.on("end", () => this.#ended());
    stream.on("drain", () => this.#receiver.onDrain());
    stream.once("wantTrailers", () => stream.sendTrailers(recordOf(this.#toSend)));
    stream.on("error", (error) => {
      this.#error = error;
    });
    stream.on("close", () => this.#closed());
  }

  /** A stream without an ID has not been sent. */
  get mayHaveArrived(): boolean {
    return this.#stream.id !== undefined;
  }

  get isAwaitingAnswer(): boolean {
    // A gRPC stream is answered when the server has data: a long wait means nothing.
    return this.isSent && !this.#hasAnswered && !this.#isGrpc;
  }

  write(bytes: Buffer): boolean {
    this.activity += 1;
    if (this.#isOver || this.#stream.destroyed || this.#stream.writableEnded) return true;
    return this.#stream.write(bytes);
  }

  end(trailers: readonly string[]): void {
    this.isSent = true;
    this.#toSend = trailers;
    this.activity += 1;
    if (!this.#stream.destroyed && !this.#stream.writableEnded) this.#stream.end();
  }

  resume(): void {
    this.activity += 1;
    this.#stream.resume();
  }

  abort(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#stream.close(NGHTTP2_CANCEL);
  }

  /** Fails the request and cancels its stream. */
  fail(failure: RelayFailure): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#stream.close(NGHTTP2_CANCEL);
    this.#receiver.onFailure(failure);
  }

  #informed(raw: readonly string[]): void {
    this.activity += 1;
    const head = headOfStream({ rawHeaders: raw, isHead: this.#isHead, isAll: false });
    this.#informational += 1;
    if (this.#isOver || head === undefined || head.status === 100) return;
    if (this.#informational > maxInformational || head.status >= 200) {
      this.fail(new RelayFailure("malformed", "the provider sent too many informational responses"));
    } else {
      this.#receiver.onInformational(head);
    }
  }

  #answered(raw: readonly string[], flags: number): void {
    if (this.#isOver) return;
    this.activity += 1;
    const isAll = (flags & NGHTTP2_FLAG_END_STREAM) !== 0;
    const head = headOfStream({ rawHeaders: raw, isHead: this.#isHead, isAll });
    if (head === undefined || head.status < 200) {
      this.fail(new RelayFailure("malformed", "the response's headers are malformed"));
      return;
    }
    this.#hasAnswered = true;
    this.#framing = head.framing;
    this.#receiver.onHead(head, false);
  }

  #read(content: Buffer): void {
    if (this.#isOver) return;
    this.activity += 1;
    this.#received += content.length;
    if (!this.#receiver.onContent(content, nothingToRelease) && !this.#isOver) this.#stream.pause();
  }

  #ended(): void {
    const stream = this.#stream;
    // A reset, or the end of the session, also emits `end`.
    if (this.#isOver || !this.#hasAnswered || (stream.closed && stream.rstCode !== NGHTTP2_NO_ERROR)) return;
    this.#isOver = true;
    // Applies to streams without an error code, too.
    if (typeof this.#framing === "number" && this.#received !== this.#framing) {
      stream.close(NGHTTP2_CANCEL);
      this.#receiver.onFailure(new RelayFailure("cut_off", "the response is shorter than its content-length"));
      return;
    }
    const { isSent } = this;
    this.#receiver.onEnd(this.#trailers);
    // The provider has answered before it received the whole request.
    if (!isSent && !stream.destroyed) stream.close(NGHTTP2_NO_ERROR);
  }

  #closed(): void {
    const { rstCode: code = NGHTTP2_NO_ERROR, id: streamId } = this.#stream;
    const hasBegun = this.#hasAnswered || this.#informational > 0;
    const isContinued = this.#carrying.over(this, this.#isOver || hasBegun ? undefined : { streamId, code });
    if (this.#isOver || isContinued) return;
    this.#isOver = true;
    const failure = this.#carrying.failure(this.#error) ?? failureOfReset(code);
    const { kind, message, resetCode } = failure;
    this.#receiver.onFailure(new RelayFailure(this.#hasAnswered ? "cut_off" : kind, message, { resetCode }));
  }
}

const failureOfReset = (resetCode: number): RelayFailure =>
  new RelayFailure("closed", `the provider reset the stream (${names[resetCode] ?? resetCode})`, { resetCode });

const names: Readonly<Record<number, string>> = Object.fromEntries(
  [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
  ].map((name) => [constants[`NGHTTP2_${name}` as keyof typeof constants], name]),
);
