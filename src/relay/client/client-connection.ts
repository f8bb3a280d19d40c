import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { lowerCase } from "../../base/http/field-name.ts";
import { takesMore } from "../backpressure.ts";
import type { Exchange } from "../exchange.ts";
import type { RelayFailure } from "../failure.ts";
import { isBegunHead, parseRequestHead, type RequestHead } from "../http1/request-head.ts";
import { type ResponseHead, statusLine } from "../http1/response-head.ts";
import { type BatchMember, hasEnd, waitsForOthers, workSoon, writeSoon } from "../node/batching.ts";
import { readBytes, SharedSocket, type SocketReader } from "../node/shared-socket.ts";
import { hasUnsent, writeText } from "../node/text-writes.ts";
import { createYoungCollection } from "../node/young-collection.ts";
import { type AnswerRules, type ClientSide, cutAfterMs, linksIn, trailersIn } from "./client-side.ts";

/** Whom a line asks, and tells. */
export interface ClientConnectionOwner {
  /**
   * Returns whether this request is to be relayed: then `begin` was called. Otherwise nothing has happened; a promise
   * is for somebody who asks again when it has settled, however it did.
   */
  take(line: ClientConnection, head: RequestHead): boolean | Promise<void>;
  /** What is not plain, and whatever follows on its connection, is for another reader; its bytes are unread again. Told is
   * whether HTTP/1.1 has come over it: otherwise that is not known. */
  handOver(line: ClientConnection, socket: Socket, isHttp1: boolean): void;
  /** What has come never becomes a request. The codes are those of `node:http`. */
  refuse(socket: Socket, code: "ERR_HTTP_REQUEST_TIMEOUT" | "HPE_INVALID_EOF_STATE"): void;
  closed(line: ClientConnection): void;
  /** Every answer that begins ends its connection. */
  readonly isLeaving: boolean;
  /** So does every one that ends. */
  readonly isDraining: boolean;
  /** Of the monotonic clock, a second behind at most. */
  readonly nowMs: number;
}

/** One request that a line has taken. */
export interface TakenRequest {
  /** Answered, or left. */
  over(status: number): void;
}

/** An answer that no provider gave. */
export interface OwnAnswer {
  readonly status: number;
  /** All but how long it is, and what is about the connection. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** How long a caller may take until the head of its request is there, and how long it may ask for nothing. */
const headMs = 10_000;
const idleMs = 60_000;
const maxHeadBytes = 16 * 1024;
/** Of requests that came before their turn; until there are so many it is seen that a caller leaves. */
const maxEarlyBytes = 64 * 1024;
/** A small piece goes out as text, in one write with what was to be said before it. */
const smallBytes = 16 * 1024;
/** As `node:http` says it: clients that know it use no connection that is about to go. */
const keepsAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${idleMs / 1_000}\r\n`;
const closes = "Connection: close\r\n";
const chunked = "Transfer-Encoding: chunked\r\n";
/** What heads end with. */
const ends = { closes: `${closes}\r\n`, keepsAlive: `${keepsAlive}\r\n` };
const chunkedEnds = { closes: `${closes}${chunked}\r\n`, keepsAlive: `${keepsAlive}${chunked}\r\n` };

/** A read that fills less of its buffer is copied: whoever keeps it would keep all of that. */
const handedOnBytes = readBytes * (7 / 8);

const states = { waiting: 0, asking: 1, carrying: 2, ending: 3, handedOver: 4 } as const;
const collectYoung = createYoungCollection();

/**
 * A caller's connection without `node:http`: takes the ordinary requests that come over it, one at a time and in
 * their order, and faces the caller for each of them. A class, because there are as many as callers, and because what
 * happens for each request is to cost no closure.
 */
export class ClientConnection implements ClientSide, SocketReader, BatchMember {
  readonly socket: Socket;
  readonly #owner: ClientConnectionOwner;
  #state: (typeof states)[keyof typeof states] = states.waiting;
  /** What came and waits for the others of this turn. */
  #came: string | undefined;
  /** What came and was not read yet: the beginning of a head, or what came before its turn. */
  #unread: Buffer | undefined;
  /** When it began to wait for what it waits for. */
  #since: number;
  #hasAsked = false;

  // Of the request that is carried.
  #taken: TakenRequest | undefined;
  #answering: AnswerRules | undefined;
  #exchange: Exchange | undefined;
  #isHead = false;
  #closes = false;
  /** Of its body, what has not come yet. */
  #bodyLeft = 0;
  /** What is read of a large body next, once a read has filled its buffer: who sends slowly holds none of its own. */
  #room: Buffer | undefined;
  #isFilled = false;

  // Of its answer.
  #status = 200;
  #hasBegun = false;
  #framing: ResponseHead["framing"] = "none";
  #isChunked = false;
  #received = 0;
  /** To be written with what follows at once. */
  #text = "";
  #isFlushedSoon = false;
  /** What gives back the buffers that are being written from. */
  #lent: Set<() => void> | undefined;

  constructor(socket: Socket, owner: ClientConnectionOwner) {
    this.socket = socket;
    this.#owner = owner;
    this.#since = owner.nowMs;
    if (socket instanceof SharedSocket) socket.readBy(this);
    else socket.on("data", this.#read);
    socket.on("end", this.#ended).on("close", this.#closed);
    socket.on("drain", this.#drained).on("error", this.#failed);
  }

  /** The caller has left. */
  get isGone(): boolean {
    return this.socket.destroyed;
  }

  /** The caller has left, or its answer has begun. */
  get isSettled(): boolean {
    return this.#hasBegun || this.socket.destroyed;
  }

  /** From now on this one sees to the request whose head came last. */
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

  onInformational(head: ResponseHead): void {
    const links = linksIn(head);
    if (links.length === 0 || this.#hasBegun) return;
    this.socket.write(`HTTP/1.1 103 Early Hints\r\nLink: ${links.join(", ")}\r\n\r\n`, "latin1");
  }

  onHead(head: ResponseHead, hasMore: boolean): void {
    const { status, framing } = head;
    // Where only the end of the provider's connection ends the answer, ours goes on. Over HTTP/2 the head may be all of
    // an answer, and need not say so.
    const isUnsaid = framing === "none" && !this.#isHead && !isBodiless(status) && !saysLength(head.fields);
    this.#beginProviders(head, framing === "chunked" || framing === "close" || isUnsaid);
    if (!hasMore && framing !== "none" && framing !== 0) this.#flush();
  }

  onWhole(head: ResponseHead, content: string): boolean {
    this.#beginProviders(head, false);
    this.#text += content;
    return true;
  }

  onContent(content: Buffer, release: (() => void) | undefined): boolean {
    this.#received += content.length;
    if (content.length > smallBytes) return this.#writeLarge(content, release);
    const text = content.toString("latin1");
    release?.();
    if (!this.#isChunked) {
      this.#text += text;
      // Otherwise it is all there, and its end follows at once.
      if (this.#received !== this.#framing) this.#flush();
    } else {
      this.#text += `${content.length.toString(16)}\r\n${text}\r\n`;
      // Its end may follow at once.
      this.#flushSoon();
    }
    return takesMore(this.socket);
  }

  onEnd(trailers: readonly string[]): void {
    if (this.#isChunked) {
      this.#text += "0\r\n";
      const kept = trailers.length === 0 ? trailers : trailersIn(trailers);
      for (let i = 0; i < kept.length; i += 2) this.#text += `${kept[i]}: ${kept[i + 1]}\r\n`;
      this.#text += "\r\n";
    }
    if (hasEnd()) writeSoon(this);
    else this.#flush();
    this.#finish();
  }

  onFailure(failure: RelayFailure): void {
    if (this.#hasBegun) {
      // An answer that was cut must not look like a whole one.
      this.#answering?.cut("provider");
      this.#end();
      this.socket.destroy();
    } else {
      this.#answering?.answerFailure(failure);
    }
  }

  onDrain(): void {
    this.socket.resume();
  }

  /** In place of the provider's. */
  answer({ status, headers, body }: OwnAnswer): void {
    // What of the request has not come is not waited for.
    if (this.#bodyLeft > 0) this.#closes = true;
    const content = Buffer.from(body).toString("latin1");
    let lines = "";
    for (const [name, value] of Object.entries(headers)) lines += `${name}: ${value}\r\n`;
    this.#isChunked = false;
    const first = statusLine(status, STATUS_CODES[status] ?? "");
    this.#beginAnswer(status, `${first}${lines}content-length: ${content.length}\r\n`);
    if (!this.#isHead) this.#text += content;
    this.#flush();
    this.#finish();
  }

  /** Once in a while. */
  sweep(nowMs: number): void {
    if (this.#state !== states.waiting) return;
    const forMs = nowMs - this.#since;
    if (this.#unread !== undefined) {
      if (forMs > headMs) this.#refuse("ERR_HTTP_REQUEST_TIMEOUT");
    } else if (!this.#hasAsked) {
      // Nobody knows yet what it speaks.
      if (forMs > headMs) this.socket.destroy();
    } else if (hasUnsent(this.socket)) {
      // It takes its time over the last answer.
      this.#since = nowMs;
    } else if (forMs > idleMs) {
      this.socket.destroy();
    }
  }

  /** Ends it, unless something has come. */
  endIfIdle(): void {
    if (this.#state === states.waiting && this.#unread === undefined) this.#sayNoMore();
  }

  destroy(): void {
    this.socket.destroy();
  }

  read(length: number, buffer: Buffer): boolean {
    this.workNow();
    if (this.#state === states.handedOver) return false;
    this.#isFilled = length >= handedOnBytes;
    if (this.#state === states.waiting && this.#unread === undefined && length <= maxHeadBytes) {
      // Most requests are one read, and are never looked at but as text.
      const text = buffer.toString("latin1", 0, length);
      if (waitsForOthers()) {
        this.#came = text;
        workSoon(this);
      } else {
        this.#readText(text, undefined);
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
    if (!this.socket.destroyed) this.#readText(came, undefined);
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

  #readHead(bytes: Buffer, isAskedAgain = false): void {
    this.#unread = undefined;
    this.#readText(bytes.toString("latin1", 0, Math.min(bytes.length, maxHeadBytes)), bytes, isAskedAgain);
  }

  /** `bytes` are those of the text, and what follows it; undefined: nothing follows. */
  #readText(text: string, bytes: Buffer | undefined, isAskedAgain = false): void {
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
    this.#expect(head);
    const taken = this.#owner.take(this, head);
    if (taken === true) return;
    const whole = bytes ?? Buffer.from(text, "latin1");
    if (taken === false || isAskedAgain) this.#handOver(whole);
    else this.#askAgain(whole, taken);
  }

  #expect(head: RequestHead): void {
    this.#state = states.carrying;
    this.#hasAsked = true;
    this.#isHead = head.method === "HEAD";
    this.#closes = head.fields.closes;
    this.#bodyLeft = head.fields.contentLength;
    this.#status = 200;
    this.#hasBegun = false;
    this.#received = 0;
  }

  #askAgain(bytes: Buffer, settled: Promise<void>): void {
    this.#state = states.asking;
    this.#unread = bytes;
    this.#bodyLeft = 0;
    settled.then(() => {
      if (this.#state === states.asking && !this.socket.destroyed) this.#readUnread(true);
    });
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

  /** What comes before its turn. */
  #keep(bytes: Buffer): void {
    this.#unread = this.#unread === undefined ? bytes : Buffer.concat([this.#unread, bytes]);
    if (this.#unread.length > maxEarlyBytes) this.socket.pause();
  }

  #beginProviders(head: ResponseHead, isChunked: boolean): void {
    const { status, framing } = head;
    this.#framing = framing;
    this.#isChunked = isChunked;
    this.#beginAnswer(status, this.#answering?.linesFor(head) ?? "");
  }

  #beginAnswer(status: number, lines: string): void {
    this.#status = status;
    this.#hasBegun = true;
    if (this.#owner.isLeaving) this.#closes = true;
    this.#text += lines + (this.#isChunked ? chunkedEnds : ends)[this.#closes ? "closes" : "keepsAlive"];
  }

  #writeLarge(content: Buffer, release: (() => void) | undefined): boolean {
    const socket = this.socket;
    socket.cork();
    if (this.#isChunked) this.#text += `${content.length.toString(16)}\r\n`;
    this.#flush();
    if (release === undefined) socket.write(Buffer.from(content));
    else this.#writeLent(content, release);
    if (this.#isChunked) socket.write("\r\n", "latin1");
    socket.uncork();
    // What is lent is bounded by itself: one is filled while the other is on its way.
    return release !== undefined || takesMore(socket);
  }

  #writeLent(content: Buffer, release: () => void): void {
    const lent = this.#lent ?? new Set();
    this.#lent = lent;
    const giveBack = () => {
      lent.delete(giveBack);
      release();
    };
    lent.add(giveBack);
    this.socket.write(content, giveBack);
  }

  #flush(): void {
    const text = this.#text;
    if (text === "") return;
    this.#text = "";
    writeText(this.socket, text);
  }

  #flushSoon(): void {
    if (this.#isFlushedSoon) return;
    this.#isFlushedSoon = true;
    process.nextTick(writeNow, this);
  }

  writeNow(): void {
    this.#isFlushedSoon = false;
    this.#flush();
  }

  /** The answer is complete. */
  #finish(): void {
    if (this.#bodyLeft > 0) {
      // Before all of the request was there: the rest is for nobody.
      this.#end();
      this.socket.resume();
      const cut = setTimeout(() => this.socket.destroy(), cutAfterMs);
      this.socket.once("close", () => clearTimeout(cut));
    } else if (this.#closes || this.#owner.isDraining) {
      this.#end();
      this.#sayNoMore();
    } else {
      this.#end();
      this.#state = states.waiting;
      this.#since = this.#owner.nowMs;
      // Not from within the provider's connection, which can carry the next one in a moment.
      if (this.#unread !== undefined) process.nextTick(readNext, this);
    }
  }

  readNext(): void {
    if (this.#state === states.waiting && !this.socket.destroyed) this.#readUnread(false);
  }

  #readUnread(isAskedAgain: boolean): void {
    const bytes = this.#unread;
    if (bytes === undefined) return;
    // If it was paused for what had come before its turn.
    this.socket.resume();
    this.#readHead(bytes, isAskedAgain);
  }

  /** Of the request that is carried, nothing more is done. */
  #end(): void {
    const taken = this.#taken;
    this.#state = states.ending;
    this.#taken = undefined;
    this.#answering = undefined;
    this.#exchange = undefined;
    this.#hasBegun = false;
    taken?.over(this.#status);
  }

  #handOver(bytes: Buffer): void {
    const socket = this.socket;
    this.#flush();
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
    this.#flush();
    this.socket.destroySoon();
  }

  #refuse(code: Parameters<ClientConnectionOwner["refuse"]>[1]): void {
    this.#flush();
    this.#state = states.ending;
    this.#unread = undefined;
    this.#owner.refuse(this.socket, code);
  }

  /** Who says nothing more has left: as `node:http` holds. */
  readonly #ended = (): void => {
    const isWithinHead = this.#state === states.waiting && this.#unread !== undefined;
    const isWithinBody = this.#state === states.carrying && this.#bodyLeft > 0;
    if (isWithinHead || (isWithinBody && !this.#hasBegun)) {
      this.#answering?.leave();
      this.#end();
      this.#refuse("HPE_INVALID_EOF_STATE");
    } else {
      this.#sayNoMore();
    }
  };

  readonly #closed = (): void => {
    this.#owner.closed(this);
    if (this.#lent !== undefined) for (const giveBack of this.#lent) giveBack();
    if (this.#state !== states.carrying) return;
    if (this.#hasBegun) this.#answering?.cut("caller");
    this.#answering?.leave();
    this.#end();
  };

  readonly #drained = (): void => this.#answering?.takeMore();

  readonly #failed = (): void => void this.socket.destroy();
}

/** RFC 9112, 6.3: their head says nothing of a body that follows, for none does. */
const isBodiless = (status: number): boolean => status === 204 || status === 304;

const saysLength = (fields: readonly string[]): boolean =>
  fields.some((name, i) => i % 2 === 0 && lowerCase(name) === "content-length");

const writeNow = (line: ClientConnection): void => line.writeNow();
const readNext = (line: ClientConnection): void => line.readNext();
