import { constants, type OutgoingHttpHeaders } from "node:http2";
import { type AnswerRules, type ClientSide, linksIn, trailersIn } from "../client/client-side.ts";
import type { Exchange } from "../exchange.ts";
import { RelayFailure } from "../failure.ts";
import type { ResponseHead } from "../http1/response-head.ts";
import { endUnread, type StreamRequest, type StreamResponse } from "./stream-front.ts";
import { recordOf } from "./stream-head.ts";

const { NGHTTP2_INTERNAL_ERROR } = constants;

/** The client side of the relay over HTTP/2: one stream, as `Http1Client` is one request and its response. */
export class Http2Client implements ClientSide {
  readonly #request: StreamRequest;
  readonly #response: StreamResponse;
  readonly #answering: AnswerRules;
  #isOver = false;
  #isListeningForDrain = false;
  #trailers: readonly string[] = [];

  constructor(request: StreamRequest, response: StreamResponse, answering: AnswerRules) {
    this.#request = request;
    this.#response = response;
    this.#answering = answering;
    request.stream.on("close", () => this.#closed());
  }

  sendBody(exchange: Exchange, fieldsOf: (trailers: readonly string[]) => readonly string[]): void {
    const request = this.#request;
    const { stream } = request;
    stream.on("data", (bytes: Buffer) => {
      if (this.#isOver) return;
      this.#answering.passedOn(bytes.length);
      if (!exchange.write(bytes)) stream.pause();
    });
    stream.on("end", () => {
      if (this.#isOver || !request.complete) return;
      exchange.end(fieldsOf(trailersIn(request.rawTrailers)));
    });
  }

  onInformational(head: ResponseHead): void {
    const { stream } = this.#request;
    const links = linksIn(head);
    if (links.length === 0 || stream.headersSent || stream.destroyed || stream.closed) return;
    stream.additionalHeaders({ ":status": 103, link: [...links] });
  }

  onHead(head: ResponseHead): void {
    const { stream } = this.#request;
    const { status, framing } = head;
    // Write nothing to a closed stream: its `close` event will follow.
    if (stream.destroyed || stream.closed) return;
    const fields = [":status", String(status), ...this.#answering.fieldsFor(head)];
    const endStream = framing === "none" || framing === 0;
    // With `waitForTrailers`, a reset does not end the stream first; otherwise Node would report the response as
    // complete.
    const options = { endStream, waitForTrailers: !endStream, sendDate: false };
    try {
      // A flat list of names and values, which Node accepts and its types do not know.
      stream.respond(fields as unknown as OutgoingHttpHeaders, options);
    } catch (cause) {
      // For example a status above 599, which HTTP/1.1 does not forbid.
      this.#answering.leave();
      this.onFailure(
        new RelayFailure("malformed", `the response's headers cannot be sent over HTTP/2 (${status})`, { cause }),
      );
      return;
    }
    this.#response.statusCode = status;
    if (endStream) return;
    stream.once("wantTrailers", () => {
      stream.sendTrailers(recordOf(this.#trailers));
      setImmediate(endUnread, this.#request);
    });
  }

  onContent(content: Buffer, release: (() => void) | undefined): boolean {
    const { stream } = this.#request;
    if (stream.destroyed || stream.closed) {
      release?.();
      return true;
    }
    const takesMore =
      release === undefined ? stream.write(Buffer.from(content)) : stream.write(content, () => release());
    if (!takesMore && !this.#isListeningForDrain) {
      this.#isListeningForDrain = true;
      stream.on("drain", () => this.#answering.takeMore());
    }
    return takesMore;
  }

  onEnd(trailers: readonly string[]): void {
    this.#isOver = true;
    this.#response.ended();
    this.#endWith(trailersIn(trailers));
  }

  onFailure(failure: RelayFailure): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.#response.headersSent) {
      // A truncated response must not look complete.
      this.#answering.cut("provider");
      const { resetCode = NGHTTP2_INTERNAL_ERROR } = failure;
      const trailers = failure.resetCode === undefined ? this.#answering.endOfCut?.(failure) : undefined;
      if (trailers === undefined) this.reset(resetCode);
      else this.#endWith(trailers);
    } else {
      this.#answering.answerFailure(failure);
    }
  }

  onDrain(): void {
    this.#request.stream.resume();
  }

  /** Ends the stream with an error code, which replaces the response or its missing rest. */
  reset(code: number): void {
    this.#isOver = true;
    const { stream } = this.#request;
    if (!stream.destroyed && !stream.closed) stream.close(code);
  }

  #endWith(trailers: readonly string[]): void {
    const { stream } = this.#request;
    this.#trailers = trailers;
    if (stream.destroyed || stream.closed) return;
    if (stream.writableEnded) endUnread(this.#request);
    else stream.end();
  }

  #closed(): void {
    // The exchange is over, or was answered in another way.
    if (this.#isOver || this.#response.isEnded) return;
    this.#isOver = true;
    if (this.#response.headersSent) this.#answering.cut("caller");
    this.#answering.leave();
  }
}
