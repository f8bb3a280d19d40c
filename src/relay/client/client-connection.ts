import type { Socket } from "node:net";
import { readBytes, SharedSocket, type SocketReader, sharedReads } from "../../base/node/shared-socket.ts";
import { hasUnsent } from "../../base/node/text-writes.ts";
import { createYoungCollection } from "../../base/node/young-collection.ts";
import { type BatchMember, hasTickEnd, waitsForOthers, workSoon, writeSoon } from "../batching.ts";
import type { Exchange } from "../exchange.ts";
import type { RelayFailure } from "../failure.ts";
import { isBegunHead, knownHeadIn, parseRequestHead, type RequestHead, textOf } from "../http1/request-head.ts";
import type { ResponseHead } from "../http1/response-head.ts";
import type { ClientConnectionOwner, OwnAnswer, TakenRequest } from "./client-connection-owner.ts";
import { ClientResponse, hasKnownEnd, idleMs, smallBytes } from "./client-response.ts";
import { type AnswerRules, type ClientSide, cutAfterMs } from "./client-side.ts";
import { textsOf } from "./own-answer.ts";

/** Limits the time until the head of a request is complete. */
const headMs = 10_000;
const maxHeadBytes = 16 * 1024;
/**
 * Limits the buffered bytes of pipelined requests. Below the limit the socket is still read, which shows whether the
 * client leaves.
 */
const maxEarlyBytes = 64 * 1024;
/** A read that fills less of its buffer is copied: a receiver that keeps a slice would keep the whole buffer. */
const handedOnBytes = readBytes * (7 / 8);

/** How often the owner is asked again: after the key or route was read, and after the connection was. */
const mostAsks = 2;
const states = { waiting: 0, asking: 1, carrying: 2, ending: 3, handedOver: 4 } as const;
const collectYoung = createYoungCollection();

/**
 * A client's connection without `node:http`. Accepts its ordinary requests one at a time, in order, and is the client
 * side of each. A class: there are as many instances as clients, and no request may cost a closure.
 */
export class ClientConnection extends ClientResponse implements ClientSide, SocketReader, BatchMember {
  readonly #owner: ClientConnectionOwner<ClientConnection>;
  #state: (typeof states)[keyof typeof states] = states.waiting;
  /** What was received and waits for the end of this batch: a text, or a head that was recognized. */
  #came: string | RequestHead | undefined;
  /** Bytes that were received and not parsed yet: the beginning of a head, or pipelined requests. */
  #unread: Buffer | undefined;
  /** Start of the current wait. */
  #since: number;
  #hasAsked = false;

  // State of the current request.
  #taken: TakenRequest | undefined;
  #answering: AnswerRules | undefined;
  #exchange: Exchange | undefined;
  #isHead = false;
  /** Bytes of the request body that have not arrived yet. */
  #bodyLeft = 0;
  /**
   * Buffer for the next read of a large body, used once a read has filled its buffer. Slow senders hold no buffer of
   * their own.
   */
  #room: Buffer | undefined;
  #isFilled = false;

  constructor(socket: Socket, owner: ClientConnectionOwner<ClientConnection>) {
    super(socket);
    this.#owner = owner;
    // Exactly, not by the beat of all connections: a new connection has its full time for a request at a stop.
    this.#since = performance.now();
    if (socket instanceof SharedSocket) socket.readBy(this);
    else socket.on("data", this.#read);
    socket.on("end", this.#ended).on("close", this.#closed);
    socket.on("drain", this.#drained).on("error", this.#failed);
  }

  /** Whether the client has left. */
  get isGone(): boolean {
    return this.socket.destroyed;
  }

  /** Whether the client has left, or its response has begun. */
  get isSettled(): boolean {
    return this.hasBegun || this.socket.destroyed;
  }

  /** Accepts the request whose head came last. */
  begin(answering: AnswerRules, taken: TakenRequest): this {
    this.#answering = answering;
    this.#taken = taken;
    return this;
  }

  sendBody(exchange: Exchange): void {
    this.#exchange = exchange;
    const bytes = this.#unread;
    this.#unread = undefined;
    if (bytes !== undefined) this.#readBody(bytes);
  }

  onHead(head: ResponseHead, hasMore: boolean): void {
    const { framing } = head;
    // If the response ends only with the provider's connection, ours continues, so the body needs chunks. An HTTP/2
    // head may be the whole response without saying so.
    this.isChunked = framing === "chunked" || framing === "close" || !(this.#isHead || hasKnownEnd(head));
    this.#begin(head.status, head.framing, this.#answering?.linesFor(head) ?? "");
    if (!hasMore && framing !== "none" && framing !== 0) this.flush();
  }

  onWhole(head: ResponseHead, content: string): boolean {
    this.isChunked = false;
    this.#begin(head.status, head.framing, this.#answering?.linesFor(head) ?? "");
    this.addText(content);
    return true;
  }

  onEnd(trailers: readonly string[]): void {
    if (this.isChunked) this.addLastChunk(trailers);
    if (hasTickEnd()) writeSoon(this);
    else this.flush();
    this.#finish();
  }

  onFailure(failure: RelayFailure): void {
    if (this.hasBegun) {
      // A truncated response must not look complete.
      this.#answering?.cut("provider");
      this.#end();
      this.socket.destroy();
    } else {
      this.#answering?.answerFailure(failure);
    }
  }

  /** Answers instead of the provider. */
  answer(own: OwnAnswer): void {
    // Do not wait for the rest of the request body.
    if (this.#bodyLeft > 0) this.closes = true;
    const { lines, content } = textsOf(own);
    this.isChunked = false;
    this.#begin(own.status, content.length, lines);
    if (!this.#isHead) this.addText(content);
    this.flush();
    this.#finish();
  }

  /** Called periodically. */
  sweep(nowMs: number): void {
    if (this.#state !== states.waiting) return;
    const forMs = nowMs - this.#since;
    if (this.#unread !== undefined) {
      if (forMs > headMs) this.#refuse("ERR_HTTP_REQUEST_TIMEOUT");
    } else if (!this.#hasAsked) {
      // The protocol of the connection is still unknown.
      if (forMs > headMs) this.socket.destroy();
    } else if (hasUnsent(this.socket)) {
      // The client is still reading the last response.
      this.#since = nowMs;
    } else if (forMs > idleMs) {
      this.socket.destroy();
    }
  }

  /** Closes a connection that has had no request since then. One that has carried none counts from its opening. */
  endIfIdle(openedMs: number, answeredMs: number): void {
    const isIdle = this.#state === states.waiting && this.#unread === undefined;
    if (isIdle && this.#since <= (this.#hasAsked ? answeredMs : openedMs)) this.#sayNoMore();
  }

  destroy(): void {
    this.socket.destroy();
  }

  read(length: number, buffer: Buffer): boolean {
    this.workNow();
    if (this.#state === states.handedOver) return false;
    this.#isFilled = length >= handedOnBytes;
    if (this.#state === states.waiting && this.#unread === undefined && length <= maxHeadBytes) {
      // Most requests come in one read, and repeat their headers. Others are only parsed as text.
      const known = buffer === this.#room ? undefined : knownHeadIn(sharedReads, length);
      const came = known ?? buffer.toString("latin1", 0, length);
      if (waitsForOthers()) {
        this.#came = came;
        workSoon(this);
      } else {
        this.#work(came);
      }
    } else if (buffer === this.#room && this.#isFilled) {
      this.#read(buffer.subarray(0, length));
    } else {
      this.#read(Buffer.from(buffer.subarray(0, length)));
    }
    return true;
  }

  readEnd(): void {
    this.workNow();
  }

  nextBuffer(): Buffer | undefined {
    const isMany = this.#isFilled && this.#bodyLeft > smallBytes && this.#state === states.carrying;
    this.#room = isMany ? Buffer.allocUnsafeSlow(readBytes) : undefined;
    return this.#room;
  }

  workNow(): void {
    const came = this.#came;
    if (came === undefined) return;
    this.#came = undefined;
    if (!this.socket.destroyed) this.#work(came);
  }

  #work(came: string | RequestHead): void {
    if (typeof came === "string") this.#readText(came, undefined);
    else this.#take(came, undefined, 0);
  }

  readonly #read = (bytes: Buffer): void => {
    if (this.#state === states.waiting) {
      this.#readHead(this.#unread === undefined ? bytes : Buffer.concat([this.#unread, bytes]));
    } else if (this.#bodyLeft > 0) {
      this.#readBody(bytes);
    } else if (this.#state === states.carrying || this.#state === states.asking) {
      this.#keep(bytes);
    }
  };

  #readHead(bytes: Buffer, asked = 0): void {
    this.#unread = undefined;
    this.#readText(bytes.toString("latin1", 0, Math.min(bytes.length, maxHeadBytes)), bytes, asked);
  }

  /** `bytes` holds the bytes of the text and of what follows; undefined: nothing follows. */
  #readText(text: string, bytes: Buffer | undefined, asked = 0): void {
    const end = text.indexOf("\r\n\r\n") + 4;
    if (end === 3) {
      const begun = bytes ?? Buffer.from(text, "latin1");
      if (text.length === maxHeadBytes || !isBegunHead(text)) this.#handOver(begun);
      else this.#waitForMore(begun);
      return;
    }
    const head = parseRequestHead(end === text.length ? text : text.slice(0, end));
    if (head === undefined) {
      this.#handOver(bytes ?? Buffer.from(text, "latin1"));
      return;
    }
    if (bytes !== undefined && bytes.length > end) this.#unread = bytes.subarray(end);
    else if (text.length > end) this.#unread = Buffer.from(text.slice(end), "latin1");
    this.#take(head, bytes ?? text, asked);
  }

  /** `received` includes what follows the head; undefined: nothing follows. */
  #take(head: RequestHead, received: Buffer | string | undefined, asked: number): void {
    this.#expect(head);
    const taken = asked <= mostAsks && this.#owner.take(this, head);
    if (taken === true) return;
    const whole = Buffer.isBuffer(received) ? received : Buffer.from(received ?? textOf(head), "latin1");
    if (taken === false) this.#handOver(whole);
    else this.#askAgain(whole, taken, asked + 1);
  }

  #expect(head: RequestHead): void {
    this.#state = states.carrying;
    this.#hasAsked = true;
    this.#isHead = head.method === "HEAD";
    this.#bodyLeft = head.fields.contentLength;
    this.expectResponse(head.fields.closes);
  }

  #askAgain(bytes: Buffer, found: Promise<void>, asked: number): void {
    this.#state = states.asking;
    this.#unread = bytes;
    this.#bodyLeft = 0;
    const goOn = (times: number) => () => {
      if (this.#state === states.asking && !this.socket.destroyed) this.#readUnread(times);
    };
    found.then(goOn(asked), goOn(mostAsks + 1));
  }

  #waitForMore(bytes: Buffer): void {
    if (this.#unread === undefined && this.#hasAsked) this.#since = this.#owner.nowMs;
    this.#unread = bytes;
  }

  #readBody(bytes: Buffer): void {
    const content = bytes.length > this.#bodyLeft ? bytes.subarray(0, this.#bodyLeft) : bytes;
    this.#bodyLeft -= content.length;
    if (this.#state === states.carrying && this.#exchange !== undefined) {
      collectYoung(content.length);
      this.#answering?.passedOn(content.length);
      const wantsMore = this.#exchange.write(content);
      if (this.#bodyLeft === 0) this.#exchange?.end([]);
      else if (!wantsMore) this.socket.pause();
    }
    if (bytes.length > content.length) this.#keep(bytes.subarray(content.length));
  }

  /** Keeps bytes that were received before the current request ended. */
  #keep(bytes: Buffer): void {
    this.#unread = this.#unread === undefined ? bytes : Buffer.concat([this.#unread, bytes]);
    if (this.#unread.length > maxEarlyBytes) this.socket.pause();
  }

  #begin(status: number, framing: ResponseHead["framing"], lines: string): void {
    if (this.#owner.isLeaving) this.closes = true;
    this.beginResponse(status, framing, lines);
  }

  /** Called when the response is complete. */
  #finish(): void {
    if (this.#bodyLeft > 0) {
      // The response ended before the request did: the rest of the request is discarded.
      this.#end();
      this.socket.resume();
      const cut = setTimeout(() => this.socket.destroy(), cutAfterMs);
      this.socket.once("close", () => clearTimeout(cut));
    } else if (this.closes) {
      this.#end();
      this.#sayNoMore();
    } else {
      this.#end();
      this.#state = states.waiting;
      this.#since = this.#owner.nowMs;
      // Deferred, so as not to run inside the provider's connection, which can carry the next request in a moment.
      if (this.#unread !== undefined) process.nextTick(readNext, this);
    }
  }

  readNext(): void {
    if (this.#state === states.waiting && !this.socket.destroyed) this.#readUnread(0);
  }

  #readUnread(asked: number): void {
    const bytes = this.#unread;
    if (bytes === undefined) return;
    // The socket may have been paused because of too many pipelined bytes.
    this.socket.resume();
    this.#readHead(bytes, asked);
  }

  /** Ends the work for the current request. */
  #end(): void {
    const taken = this.#taken;
    this.#state = states.ending;
    this.#taken = undefined;
    this.#answering = undefined;
    this.#exchange = undefined;
    this.hasBegun = false;
    taken?.over(this.status);
  }

  #handOver(bytes: Buffer): void {
    const socket = this.socket;
    this.flush();
    this.#state = states.handedOver;
    this.#unread = undefined;
    if (socket instanceof SharedSocket) socket.readBy(undefined);
    socket.off("data", this.#read).off("end", this.#ended).off("close", this.#closed);
    socket.off("drain", this.#drained).off("error", this.#failed);
    socket.pause();
    socket.unshift(bytes);
    this.#owner.handOver(this, socket, this.#hasAsked);
    socket.resume();
  }

  #sayNoMore(): void {
    this.flush();
    this.socket.destroySoon();
  }

  #refuse(code: Parameters<ClientConnectionOwner<ClientConnection>["refuse"]>[1]): void {
    this.flush();
    this.#state = states.ending;
    this.#unread = undefined;
    this.#owner.refuse(this.socket, code);
  }

  /** A client that ends its side has left, as in `node:http`. */
  readonly #ended = (): void => {
    const isWithinHead = this.#state === states.waiting && this.#unread !== undefined;
    const isWithinBody = this.#state === states.carrying && this.#bodyLeft > 0;
    if (isWithinHead || (isWithinBody && !this.hasBegun)) {
      this.#answering?.leave();
      this.#end();
      this.#refuse("HPE_INVALID_EOF_STATE");
    } else {
      this.#sayNoMore();
    }
  };

  readonly #closed = (): void => {
    this.#owner.closed(this);
    this.releaseLent();
    if (this.#state !== states.carrying) return;
    if (this.hasBegun) this.#answering?.cut("caller");
    this.#answering?.leave();
    this.#end();
  };

  readonly #drained = (): void => this.#answering?.takeMore();

  readonly #failed = (): void => void this.socket.destroy();
}

const readNext = (connection: ClientConnection): void => connection.readNext();
