import type { IncomingMessage, ServerResponse } from "node:http";
import { TLSSocket } from "node:tls";
import type { Exchange } from "../exchange.ts";
import type { RelayFailure } from "../failure.ts";
import type { ResponseHead } from "../http1/response-head.ts";
import { createYoungCollection } from "../node/young-collection.ts";
import { type AnswerRules, type ClientSide, cutAfterMs, linksIn, trailersIn } from "./client-side.ts";

const collectYoung = createYoungCollection();

/** A small answer goes out in one piece with its head: as text, which Node joins. */
const smallBytes = 16 * 1024;

/**
 * The half of the relay that faces a caller on `node:http`. A class, because there is one for each request: what it
 * does costs no closure.
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
  /** What gives back the buffers that are being written from. */
  #lent: Set<() => void> | undefined;

  constructor(request: IncomingMessage, response: ServerResponse, answering: AnswerRules) {
    this.#request = request;
    this.#response = response;
    this.#answering = answering;
    // What the provider left out, we do not add.
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
    // RFC 9110, 15.2: HTTP/1.0 knows nothing of the kind.
    const isKnown = this.#request.httpVersion !== "1.0";
    if (links.length === 0 || response.headersSent || !isKnown) return;
    try {
      response.writeEarlyHints({ link: [...links] });
    } catch {
      /* Node writes fewer kinds of links than there are, and a hint is not worth an answer. */
    }
  }

  onHead(head: ResponseHead, hasMore: boolean): void {
    const { status, reason, framing } = head;
    this.#framing = framing;
    // Node reads them, and writes nothing there.
    this.#response.writeHead(status, reason, this.#answering.fieldsFor(head) as string[]);
    if (!hasMore && framing !== "none" && framing !== 0) this.#response.flushHeaders();
  }

  onContent(content: Buffer, release: (() => void) | undefined): boolean {
    const response = this.#response;
    this.#received += content.length;
    if (this.#received === this.#framing && this.#received === content.length && content.length <= smallBytes) {
      // All of it, in a buffer that is not ours to keep.
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
      // An answer that was cut must not look like a whole one.
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
    // What waited behind another answer of the connection is dropped without a word.
    if (this.#lent !== undefined) for (const giveBack of this.#lent) giveBack();
    // Over, or answered in another way.
    if (this.#isOver || this.#response.writableFinished) return;
    this.#isOver = true;
    if (this.#response.headersSent) this.#answering.cut("caller");
    this.#answering.leave();
  }

  #writeLent(content: Buffer, release: () => void): boolean {
    const lent = this.#lent ?? new Set();
    this.#lent = lent;
    const giveBack = () => {
      lent.delete(giveBack);
      release();
    };
    lent.add(giveBack);
    return this.#response.write(content, giveBack);
  }

  #breakOff(): void {
    const { socket } = this.#response;
    // To HTTP/1.0 the end of the connection is the end of the answer: only a reset says that it is not.
    const isOld = this.#request.httpVersion === "1.0";
    if (isOld && socket !== null && !(socket instanceof TLSSocket)) socket.resetAndDestroy();
    else this.#response.destroy();
  }

  /** The provider has answered before it had all of the request: the rest is for nobody. */
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
