import { lowerCase } from "../../base/http/field-name.ts";
import { createYoungCollection } from "../../base/node/young-collection.ts";
import { type AnswerRules, type ClientSide, linksIn, trailersIn } from "../client/client-side.ts";
import type { Exchange } from "../exchange.ts";
import { RelayFailure } from "../failure.ts";
import type { ResponseHead } from "../http1/response-head.ts";
import {
  isBodiless,
  neverIndexed,
  type RequestReader,
  type ResponseWriter,
  type StreamRequest,
  type StreamResponse,
} from "./stream-front.ts";
import { isOfConnection, lowerCaseNames } from "./stream-head.ts";
import { errorCodes } from "./wire/error-codes.ts";

const collectYoung = createYoungCollection();

/** The client side of the relay over HTTP/2: one stream, as `Http1Client` is one request and its response. */
export class Http2Client implements ClientSide, RequestReader, ResponseWriter {
  readonly #request: StreamRequest;
  readonly #response: StreamResponse;
  readonly #answering: AnswerRules;
  #exchange: Exchange | undefined;
  #fieldsOf: ((trailers: readonly string[]) => readonly string[]) | undefined;
  #isOver = false;
  #hasContent = false;

  constructor(request: StreamRequest, response: StreamResponse, answering: AnswerRules) {
    this.#request = request;
    this.#response = response;
    this.#answering = answering;
    request.writer = this;
  }

  sendBody(exchange: Exchange, fieldsOf: (trailers: readonly string[]) => readonly string[]): void {
    this.#exchange = exchange;
    this.#fieldsOf = fieldsOf;
    this.#request.readBy(this);
  }

  take(content: Buffer): boolean {
    if (this.#isOver || this.#exchange === undefined) return true;
    collectYoung(content.length);
    this.#answering.passedOn(content.length);
    return this.#exchange.write(Buffer.from(content));
  }

  takeEnd(trailers: readonly string[]): void {
    if (!this.#isOver) this.#exchange?.end(this.#fieldsOf?.(trailersIn(trailers)) ?? []);
  }

  onInformational(head: ResponseHead): void {
    const links = linksIn(head);
    if (links.length > 0)
      this.#response.inform(
        103,
        links.flatMap((link) => ["link", link]),
      );
  }

  onHead(head: ResponseHead): void {
    const { stream } = this.#request;
    const { status, framing } = head;
    // Nothing is written to a closed stream: its end will be told.
    if (stream.isClosed) return;
    if (status > 599) {
      // HTTP/1.1 does not forbid it.
      this.#answering.leave();
      this.onFailure(new RelayFailure("malformed", `the response's headers cannot be sent over HTTP/2 (${status})`));
      return;
    }
    const fields = [":status", String(status)];
    const given = this.#answering.fieldsFor(head);
    for (let i = 0; i < given.length; i += 2) {
      const name = lowerCase(given[i] as string);
      if (!isOfConnection(name)) fields.push(name, given[i + 1] as string);
    }
    this.#response.headersSent = true;
    this.#response.statusCode = status;
    this.#hasContent = framing !== "none" && framing !== 0 && !isBodiless(status);
    // Over HTTP/2, the end and trailers may follow any head.
    const isEnd = !this.#hasContent && (head.isHttp2 !== true || head.isAll === true);
    stream.sendFields(fields, isEnd, neverIndexed);
  }

  onContent(content: Buffer, release: (() => void) | undefined): boolean {
    if (!this.#hasContent) {
      release?.();
      return true;
    }
    // Lent buffers are shared by all responses: one that is not read must not keep them.
    const takesMore = this.#request.stream.write(content, true);
    release?.();
    return takesMore;
  }

  onEnd(trailers: readonly string[]): void {
    this.#isOver = true;
    this.#response.isEnded = true;
    this.#endWith(trailers);
  }

  onFailure(failure: RelayFailure): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.#response.headersSent) {
      // A truncated response must not look complete.
      this.#answering.cut("provider");
      const { resetCode = errorCodes.internalError } = failure;
      const trailers = failure.resetCode === undefined ? this.#answering.endOfCut?.(failure) : undefined;
      if (trailers === undefined) this.reset(resetCode);
      else this.#endWith(trailers);
    } else {
      this.#answering.answerFailure(failure);
    }
  }

  onDrain(): void {
    this.#request.resume();
  }

  onRoom(): void {
    this.#answering.takeMore();
  }

  /** Ends the stream with an error code, which replaces the response or its missing rest. */
  reset(code: number): void {
    this.#isOver = true;
    const { stream } = this.#request;
    if (!stream.isClosed) stream.reset(code);
  }

  onClosed(): void {
    // The exchange is over, or was answered in another way.
    if (this.#isOver || this.#response.isEnded) return;
    this.#isOver = true;
    if (this.#response.headersSent) this.#answering.cut("caller");
    this.#answering.leave();
  }

  #endWith(trailers: readonly string[]): void {
    this.#request.stream.end(trailers.length === 0 ? trailers : lowerCaseNames(trailersIn(trailers)));
  }
}
