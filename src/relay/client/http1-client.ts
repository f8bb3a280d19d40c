import type { IncomingMessage, ServerResponse } from "node:http";
import { TLSSocket } from "node:tls";
import { createYoungCollection } from "../../base/node/young-collection.ts";
import type { Exchange } from "../exchange.ts";
import type { RelayFailure } from "../failure.ts";
import type { ResponseHead } from "../http1/response-head.ts";
import { type AnswerRules, type ClientSide, cutAfterMs, linksIn, trailersIn } from "./client-side.ts";
import { LentBuffers } from "./lent-buffers.ts";

const collectYoung = createYoungCollection();

/** A response up to this size is sent in one piece with its head: as text, which Node joins. */
const smallBytes = 16 * 1024;

/**
 * The client side of the relay on `node:http`. A class: there is one for each request, and its methods cost no
 * closures.
 */
export class Http1Client implements ClientSide {
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #answering: AnswerRules;
  #framing: ResponseHead["framing"] = "none";
  #received = 0;
  #last: string | undefined;
  #isOver = false;
  #isListeningForDrain = false;
  #lent: LentBuffers | undefined;

  constructor(request: IncomingMessage, response: ServerResponse, answering: AnswerRules) {
    this.#request = request;
    this.#response = response;
    this.#answering = answering;
    // Add no `Date` that the provider left out.
    response.sendDate = false;
    response.on("close", () => this.#closed());
  }

  sendBody(exchange: Exchange, fieldsOf: (trailers: readonly string[]) => readonly string[]): void {
    const request = this.#request;
    request.on("data", (bytes: Buffer) => {
      if (this.#isOver) return;
      collectYoung(bytes.length);
      this.#answering.passedOn(bytes.length);
      if (!exchange.write(bytes)) request.pause();
    });
    request.on("end", () => {
      if (!this.#isOver) exchange.end(fieldsOf(trailersIn(request.rawTrailers)));
    });
  }

  onInformational(head: ResponseHead): void {
    const response = this.#response;
    const links = linksIn(head);
    // RFC 9110, 15.2: HTTP/1.0 does not know informational responses.
    const isKnown = this.#request.httpVersion !== "1.0";
    if (links.length === 0 || response.headersSent || !isKnown) return;
    try {
      response.writeEarlyHints({ link: [...links] });
    } catch {
      /* Node writes fewer kinds of links than exist, and a hint is not worth failing the response. */
    }
  }

  onHead(head: ResponseHead, hasMore: boolean): void {
    const { status, reason, framing } = head;
    this.#framing = framing;
    // Node only reads the list, so the cast from readonly is safe.
    this.#response.writeHead(status, reason, this.#answering.fieldsFor(head) as string[]);
    if (!hasMore && framing !== "none" && framing !== 0) this.#response.flushHeaders();
  }

  onContent(content: Buffer, release: (() => void) | undefined): boolean {
    const response = this.#response;
    this.#received += content.length;
    if (this.#received === this.#framing && this.#received === content.length && content.length <= smallBytes) {
      // The whole content, in a buffer that must not be kept.
      this.#last = content.toString("latin1");
      release?.();
      return true;
    }
    const takesMore = release === undefined ? response.write(Buffer.from(content)) : this.#writeLent(content, release);
    if (!takesMore && !this.#isListeningForDrain) {
      this.#isListeningForDrain = true;
      response.on("drain", () => this.#answering.takeMore());
    }
    return takesMore;
  }

  onEnd(trailers: readonly string[]): void {
    const response = this.#response;
    if (trailers.length > 0) response.addTrailers(pairsOf(trailersIn(trailers)));
    if (this.#last === undefined) response.end();
    else response.end(this.#last, "latin1");
    this.#isOver = true;
    if (!this.#request.complete) this.#cutOff();
  }

  onFailure(failure: RelayFailure): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.#response.headersSent) {
      // A truncated response must not look complete.
      this.#answering.cut("provider");
      this.#breakOff();
    } else {
      this.#answering.answerFailure(failure);
    }
  }

  onDrain(): void {
    this.#request.resume();
  }

  #closed(): void {
    // Buffers that waited behind another response of the connection are dropped without a callback.
    this.#lent?.releaseAll();
    // The exchange is over, or was answered in another way.
    if (this.#isOver || this.#response.writableFinished) return;
    this.#isOver = true;
    if (this.#response.headersSent) this.#answering.cut("caller");
    this.#answering.leave();
  }

  #writeLent(content: Buffer, release: () => void): boolean {
    this.#lent ??= new LentBuffers();
    return this.#response.write(content, this.#lent.add(release));
  }

  #breakOff(): void {
    const { socket } = this.#response;
    // For HTTP/1.0, the end of the connection is the end of the response. Only a reset shows a truncation.
    const isOld = this.#request.httpVersion === "1.0";
    if (isOld && socket !== null && !(socket instanceof TLSSocket)) socket.resetAndDestroy();
    else this.#response.destroy();
  }

  /** The provider has answered before it received the whole request: the rest of the request is discarded. */
  #cutOff(): void {
    const { socket } = this.#request;
    this.#request.resume();
    const cut = setTimeout(() => socket.destroy(), cutAfterMs);
    socket.once("close", () => clearTimeout(cut));
  }
}

function pairsOf(flat: readonly string[]): [string, string][] {
  return Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i] ?? "", flat[2 * i + 1] ?? ""]);
}
