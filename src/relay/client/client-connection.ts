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

/** Callbacks of a client connection. */
export interface ClientConnectionOwner {
  /**
   * Returns true if the request will be relayed; `begin` has been called then. Any other result means that nothing
   * has happened. After a promise has settled (resolved or rejected), call `take` again.
   */
  take(line: ClientConnection, head: RequestHead): boolean | Promise<void>;
  /**
   * Hands over a connection that has a request which is not plain; another parser reads the rest of the connection.
   * The bytes of the request are unread again. `isHttp1` says whether HTTP/1.1 has already come over the connection;
   * false means unknown.
   */
  handOver(line: ClientConnection, socket: Socket, isHttp1: boolean): void;
  /** Refuses bytes that never become a request. The codes are those of `node:http`. */
  refuse(socket: Socket, code: "ERR_HTTP_REQUEST_TIMEOUT" | "HPE_INVALID_EOF_STATE"): void;
  closed(line: ClientConnection): void;
  /** Set when every response that begins must close its connection. */
  readonly isLeaving: boolean;
  /** Set when every response that ends must close its connection. */
  readonly isDraining: boolean;
  /** Monotonic clock, at most one second behind. */
  readonly nowMs: number;
}

/** A request that a client connection has accepted. */
export interface TakenRequest {
  /** Called when the request was answered, or the client left. */
  over(status: number): void;
}

/** A response that Latchkey makes itself, not the provider. */
export interface OwnAnswer {
  readonly status: number;
  /** All headers except the content length and those about the connection. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Limits the time until the head of a request is complete, and the idle time between requests. */
const headMs = 10_000;
const idleMs = 60_000;
const maxHeadBytes = 16 * 1024;
/**
 * Limits the buffered bytes of pipelined requests. Below the limit the socket is still read, which shows whether the
 * client leaves.
 */
const maxEarlyBytes = 64 * 1024;
/** Content up to this size is written as text, in one write with the text that precedes the content. */
const smallBytes = 16 * 1024;
/** Same header as `node:http` sends: clients that read the timeout avoid connections that are about to close. */
const keepsAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${idleMs / 1_000}\r\n`;
const closes = "Connection: close\r\n";
const chunked = "Transfer-Encoding: chunked\r\n";
/** The last lines of response heads. */
const ends = { closes: `${closes}\r\n`, keepsAlive: `${keepsAlive}\r\n` };
const chunkedEnds = { closes: `${closes}${chunked}\r\n`, keepsAlive: `${keepsAlive}${chunked}\r\n` };

/** A read that fills less of its buffer is copied: a receiver that keeps a slice would keep the whole buffer. */
const handedOnBytes = readBytes * (7 / 8);

const states = { waiting: 0, asking: 1, carrying: 2, ending: 3, handedOver: 4 } as const;
const collectYoung = createYoungCollection();

/**
 * A client's connection without `node:http`. Accepts the ordinary requests of the connection, one at a time and in
 * order, and is the client side of each. A class: there are as many instances as clients, and no request may cost a
 * closure.
 */
export class ClientConnection implements ClientSide, SocketReader, BatchMember {
  readonly socket: Socket;
  readonly #owner: ClientConnectionOwner;
  #state: (typeof states)[keyof typeof states] = states.waiting;
  /** Text that was received and waits for the end of this batch. */
  #came: string | undefined;
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
  #closes = false;
  /** Bytes of the request body that have not arrived yet. */
  #bodyLeft = 0;
  /**
   * Buffer for the next read of a large body, used once a read has filled its buffer. Slow senders hold no buffer of
   * their own.
   */
  #room: Buffer | undefined;
  #isFilled = false;

  // State of the current response.
  #status = 200;
  #hasBegun = false;
  #framing: ResponseHead["framing"] = "none";
  #isChunked = false;
  #received = 0;
  /** Text that is written together with the text that follows at once. */
  #text = "";
  #isFlushedSoon = false;
  /** Functions that release the lent buffers that are still being written. */
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

  /** Whether the client has left. */
  get isGone(): boolean {
    return this.socket.destroyed;
  }

  /** Whether the client has left, or its response has begun. */
  get isSettled(): boolean {
    return this.#hasBegun || this.socket.destroyed;
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

  onInformational(head: ResponseHead): void {
    const links = linksIn(head);
    if (links.length === 0 || this.#hasBegun) return;
    this.socket.write(`HTTP/1.1 103 Early Hints\r\nLink: ${links.join(", ")}\r\n\r\n`, "latin1");
  }

  onHead(head: ResponseHead, hasMore: boolean): void {
    const { status, framing } = head;
    // If the response ends only with the provider's connection, ours continues, so the body needs chunks. An HTTP/2
    // head may be the whole response without saying so.
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
      // Otherwise the content is complete, and the end follows at once.
      if (this.#received !== this.#framing) this.#flush();
    } else {
      this.#text += `${content.length.toString(16)}\r\n${text}\r\n`;
      // The end may follow at once.
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
      // A truncated response must not look complete.
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

  /** Answers instead of the provider. */
  answer({ status, headers, body }: OwnAnswer): void {
    // Do not wait for the rest of the request body.
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

  /** Closes the connection, unless bytes have been received. */
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
      // Most requests come in one read, and are only parsed as text.
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

  /** `bytes` holds the bytes of the text and of what follows; undefined: nothing follows. */
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

  /** Keeps bytes that were received before the current request ended. */
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
    // Lent buffers limit themselves: one is filled while the other is being written.
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

  /** Called when the response is complete. */
  #finish(): void {
    if (this.#bodyLeft > 0) {
      // The response ended before the request did: the rest of the request is discarded.
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
      // Deferred, so as not to run inside the provider's connection, which can carry the next request in a moment.
      if (this.#unread !== undefined) process.nextTick(readNext, this);
    }
  }

  readNext(): void {
    if (this.#state === states.waiting && !this.socket.destroyed) this.#readUnread(false);
  }

  #readUnread(isAskedAgain: boolean): void {
    const bytes = this.#unread;
    if (bytes === undefined) return;
    // The socket may have been paused because of too many pipelined bytes.
    this.socket.resume();
    this.#readHead(bytes, isAskedAgain);
  }

  /** Ends the work for the current request. */
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

  /** A client that ends its side has left, as in `node:http`. */
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

/** RFC 9112, 6.3: these responses have no body, so their head says nothing about a body. */
const isBodiless = (status: number): boolean => status === 204 || status === 304;

const saysLength = (fields: readonly string[]): boolean =>
  fields.some((name, i) => i % 2 === 0 && lowerCase(name) === "content-length");

const writeNow = (line: ClientConnection): void => line.writeNow();
const readNext = (line: ClientConnection): void => line.readNext();
