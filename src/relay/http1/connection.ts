import type { Socket } from "node:net";
import type { SecureContext } from "node:tls";
import { takesMore } from "../backpressure.ts";
import { connectedEvent, dial, failureOf } from "../dial.ts";
import type { Egress } from "../egress.ts";
import { RelayFailure } from "../failure.ts";
import { type BatchMember, hasEnd, waitsForOthers, workSoon, writeSoon } from "../node/batching.ts";
import { writeText } from "../node/text-writes.ts";
import type { Origin } from "../origin.ts";
import type { Bulk, BulkBuffers } from "./bulk.ts";
import { type ChunkDecoder, createChunkDecoder } from "./chunked.ts";
import type { ReadHead, ResponseHead } from "./response-head.ts";

/** What an exchange is told. First of all a head; then content; in the end `onEnd` or `onFailure`, and nothing more. */
export interface ResponseReceiver {
  /** 1xx but 101. */
  onInformational(head: ResponseHead): void;
  /** `hasMore`: content follows at once. */
  onHead(head: ResponseHead, hasMore: boolean): void;
  /**
   * In place of that and of the content: all of a small answer, as text of one byte a character. Its end follows.
   * Returns false where it is to come in pieces; then nothing has happened.
   */
  onWhole?(head: ResponseHead, content: string): boolean;
  /**
   * Of `content` nothing may be kept once this returns, unless `release` is given: then it is the receiver's until
   * that was called. Returns false when it wants no more until `resume`.
   */
  onContent(content: Buffer, release: (() => void) | undefined): boolean;
  /** Name, value, name, value. */
  onEnd(trailers: readonly string[]): void;
  onFailure(failure: RelayFailure): void;
  /** More of the request's body can be written. */
  onDrain(): void;
}

/** A receiver that hands everything on: for one that looks at some of it, to be spread into. */
export const handedOn = (to: ResponseReceiver): ResponseReceiver => ({
  onInformational: (head) => to.onInformational(head),
  onHead: (head, hasMore) => to.onHead(head, hasMore),
  onContent: (content, release) => to.onContent(content, release),
  onEnd: (trailers) => to.onEnd(trailers),
  onFailure: (failure) => to.onFailure(failure),
  onDrain: () => to.onDrain(),
});

/** One request on its way, as the connection that carries it sees it. */
export interface CarriedRequest {
  readonly receiver: ResponseReceiver;
  readonly isHead: boolean;
  /** The whole request has been written. */
  isSent: boolean;
  /** The connection stands: what was given to it is on its way, and cannot be had back. */
  stood(): void;
}

/** Where connections lead, and what the next one may begin with. */
export interface ConnectionPool {
  readonly origin: Origin;
  readonly secureContext: SecureContext | undefined;
  session: Buffer | undefined;
}

/** Whose connections they are: one for all of them. */
export interface ConnectionOwner<P extends ConnectionPool> {
  readonly egress: Egress;
  readonly bulk: BulkBuffers;
  readonly readHead: ReadHead;
  /** It has carried one exchange to its end and can carry another. */
  onIdle(connection: Connection<P>): void;
  /** It is gone. What it carried and had not begun to be answered may go to another one. */
  onGone(connection: Connection<P>, unanswered: CarriedRequest | undefined, failure: RelayFailure): void;
}

/** As Node and nginx have it; a provider with more to say than that says something else. */
const maxHeadBytes = 16 * 1024;
const maxInformational = 100;
const sharedBytes = 64 * 1024;
/**
 * One buffer for all connections: what is read is handed on, or copied, before anybody reads again. Allocating one a
 * read would cost 2 µs each.
 */
const shared = Buffer.allocUnsafeSlow(sharedBytes);

const states = { idle: 0, head: 1, length: 2, chunked: 3, close: 4 } as const;

/**
 * A connection to a provider, carrying one request at a time. A class, because there are many of them and each has
 * many small steps: what they share lies in the prototype, and what is called for each read costs no closure.
 */
export class Connection<P extends ConnectionPool = ConnectionPool> implements BatchMember {
  readonly pool: P;
  /** For how long it may be idle, as far as the provider has said. */
  idleSeconds: number | undefined;
  /** While it carries something: its place among all that do. */
  at = -1;
  /** While it is idle: until when it is kept. */
  idleUntil = 0;
  /** And since when. */
  idleSince = 0;
  /** The provider has said that no more will come. */
  hasEnded = false;
  /** It has carried something before: what it carries next may find it closed already. */
  isReused = false;
  /** Bumped by whatever happens; a look compares it with what the look before it saw. */
  #activity = 0;
  #seenActivity = 0;
  #wasConnecting = false;
  /** When it was last seen to have moved. */
  #movedAt = 0;
  readonly #owner: ConnectionOwner<P>;
  readonly #socket: Socket;
  #carried: CarriedRequest | undefined;
  #state: (typeof states)[keyof typeof states] = states.idle;
  #isReady = false;
  #isGone = false;
  /** What is written before the connection stands. */
  #early: (string | Buffer)[] = [];
  /** What came and waits for the others of this turn. */
  #came: string | undefined;
  /** So does the head of a request. */
  #ready = "";
  #head: Buffer | undefined;
  #informational = 0;
  #hasAnswered = false;
  #keepsAlive = true;
  #left = 0;
  #chunks: ChunkDecoder | undefined;
  #bulk: Bulk | undefined;
  #failure: RelayFailure | undefined;

  constructor(pool: P, owner: ConnectionOwner<P>) {
    this.pool = pool;
    this.#owner = owner;
    const { origin, secureContext, session } = pool;
    this.#socket = dial({
      ...{ origin, secureContext, session, egress: owner.egress },
      onread: {
        buffer: () => this.#nextBuffer(),
        callback: (length: number, buffer: Uint8Array) => {
          this.#read(length, buffer);
          return true;
        },
      },
    });
    this.#socket.once(connectedEvent(origin), () => this.#stands());
    if (origin.scheme === "https") this.#socket.on("session", (ticket) => (pool.session = ticket));
    this.#socket.on("error", (error) => {
      this.#failure ??= failureOf(error, this.#isReady);
    });
    this.#socket.on("drain", () => this.#carried?.receiver.onDrain());
    this.#socket.on("end", () => this.#ended());
    this.#socket.on("close", () => this.#closed());
  }

  get isConnecting(): boolean {
    return !this.#isReady;
  }

  get isAwaitingAnswer(): boolean {
    return this.#isReady && this.#carried?.isSent === true && !this.#hasAnswered;
  }

  get isCarrying(): boolean {
    return this.#carried !== undefined;
  }

  /** From now on it is asked how long it has been still. */
  watch(nowMs: number): void {
    this.#seenActivity = -1;
    this.#wasConnecting = this.isConnecting;
    this.#movedAt = nowMs;
  }

  /** How long ago it was last seen to have moved. */
  stillFor(nowMs: number): number {
    if (this.#activity !== this.#seenActivity || this.isConnecting !== this.#wasConnecting) {
      this.#seenActivity = this.#activity;
      this.#wasConnecting = this.isConnecting;
      this.#movedAt = nowMs;
    }
    return nowMs - this.#movedAt;
  }

  /** Begins an exchange with the head of its request. */
  carry(carried: CarriedRequest, head: string): void {
    this.#carried = carried;
    this.#state = states.head;
    this.#hasAnswered = false;
    this.#informational = 0;
    // What there is of a body follows at once: with the head it makes one write.
    if (!carried.isSent && this.#isReady) {
      this.#socket.cork();
      process.nextTick(uncork, this.#socket);
    }
    if (carried.isSent && this.#isReady && hasEnd()) {
      this.#activity += 1;
      this.#ready = head;
      writeSoon(this);
    } else {
      this.write(head);
    }
  }

  writeNow(): void {
    const head = this.#ready;
    this.#ready = "";
    if (head !== "") writeText(this.#socket, head);
  }

  workNow(): void {
    const came = this.#came;
    this.#came = undefined;
    if (came !== undefined) this.#readText(came, undefined);
  }

  /** Returns false when `onDrain` will say that more can be taken. */
  write(bytes: string | Buffer): boolean {
    this.#activity += 1;
    if (!this.#isReady) {
      this.#early.push(bytes);
      return false;
    }
    this.writeNow();
    if (typeof bytes === "string") writeText(this.#socket, bytes);
    else this.#socket.write(bytes);
    return takesMore(this.#socket);
  }

  /** One write for what belongs together. */
  cork(): void {
    if (this.#isReady) this.#socket.cork();
  }

  uncork(): void {
    if (this.#isReady) this.#socket.uncork();
  }

  /** The receiver wants more. */
  resume(): void {
    this.#activity += 1;
    if (this.#socket.isPaused()) this.#socket.resume();
  }

  /** Gives up what it carries, if that is it, without a word to its receiver, and itself with it. */
  abandon(carried: CarriedRequest): void {
    // It may carry somebody else's request by now.
    if (this.#carried !== carried) return;
    this.#carried = undefined;
    this.destroy(new RelayFailure("closed", "nobody waits for it any more"));
  }

  destroy(failure: RelayFailure): void {
    this.#failure ??= failure;
    this.#socket.destroy();
  }

  #stands(): void {
    this.#isReady = true;
    this.#activity += 1;
    this.#carried?.stood();
    const early = this.#early;
    this.#early = [];
    if (early.length === 0) return;
    this.#socket.cork();
    for (const bytes of early) this.write(bytes);
    this.#socket.uncork();
    if (takesMore(this.#socket)) this.#carried?.receiver.onDrain();
  }

  #nextBuffer(): Buffer {
    return this.#bulk?.next() ?? shared;
  }

  #read(length: number, buffer: Uint8Array): void {
    this.workNow();
    // A head that comes in drops is late all the same.
    if (this.#state !== states.head) this.#activity += 1;
    if (this.#carried === undefined || this.#ready !== "") {
      // Nobody has asked for anything yet: whatever it is, it is nobody's answer.
      this.destroy(new RelayFailure("malformed", "bytes came that nobody had asked for"));
      return;
    }
    if (this.#state === states.head && this.#head === undefined && buffer === shared && length <= maxHeadBytes) {
      // Most answers are one read, and are never looked at but as text.
      const text = shared.toString("latin1", 0, length);
      if (waitsForOthers()) {
        this.#came = text;
        workSoon(this);
      } else {
        this.#readText(text, undefined);
      }
      return;
    }
    const bytes = Buffer.from(buffer.buffer, buffer.byteOffset, length);
    if (this.#state === states.head) {
      this.#readHead(bytes);
      return;
    }
    this.#readBody(bytes, buffer);
    // A read that fills the buffer is one of many: from now on into larger ones, that need not be copied.
    if (length === sharedBytes && this.#bulk === undefined && this.#carried !== undefined) {
      this.#bulk = this.#owner.bulk.take(() => this.resume());
    }
  }

  #readHead(bytes: Buffer): void {
    const all = this.#head === undefined ? bytes : Buffer.concat([this.#head, bytes]);
    this.#head = undefined;
    this.#readText(all.toString("latin1", 0, Math.min(all.length, maxHeadBytes)), all);
  }

  /** `bytes` are those of the text, and what follows it; undefined: nothing follows. */
  #readText(text: string, bytes: Buffer | undefined): void {
    const end = text.indexOf("\r\n\r\n");
    if (end === -1) {
      if (text.length >= maxHeadBytes) this.#malformed("the head of the answer is too large");
      else if (isNoHead(text)) this.#malformed("the head of the answer is not well-formed");
      else this.#head = bytes === undefined ? Buffer.from(text, "latin1") : Buffer.from(bytes);
      return;
    }
    const carried = this.#carried;
    const head = this.#owner.readHead(text, carried?.isHead === true);
    if (head === undefined || head.status === 101 || carried === undefined) {
      this.#malformed("the head of the answer is not well-formed");
      return;
    }
    const { receiver } = carried;
    const restLength = (bytes?.length ?? text.length) - end - 4;
    if (head.framing === restLength && restLength > 0 && head.status >= 200 && bytes === undefined) {
      this.#answered(head);
      if (receiver.onWhole?.(head, text.slice(end + 4)) === true) {
        if (this.#carried === carried) this.#finish([], 0);
        return;
      }
    }
    const rest = bytes === undefined ? Buffer.from(text.slice(end + 4), "latin1") : bytes.subarray(end + 4);
    if (head.status < 200) {
      this.#informational += 1;
      if (this.#informational > maxInformational) {
        this.#malformed("the provider has more to say beforehand than anybody waits for");
        return;
      }
      if (head.status !== 100) carried.receiver.onInformational(head);
      if (rest.length > 0 && this.#carried === carried) this.#readHead(rest);
      return;
    }
    this.#answered(head);
    receiver.onHead(head, hasContent(rest, head));
    if (this.#carried === carried) this.#beginBody(head, rest);
  }

  #answered(head: ResponseHead): void {
    this.#hasAnswered = true;
    this.#activity += 1;
    this.#keepsAlive = head.keepsAlive;
    this.idleSeconds = head.idleSeconds;
  }

  #beginBody({ framing }: ResponseHead, rest: Buffer): void {
    if (framing === "none" || framing === 0) {
      this.#finish([], rest.length);
      return;
    }
    if (framing === "chunked") {
      this.#state = states.chunked;
      this.#chunks = createChunkDecoder();
    } else if (framing === "close") {
      this.#state = states.close;
    } else {
      this.#state = states.length;
      this.#left = framing;
    }
    if (rest.length > 0) this.#readBody(rest, shared);
  }

  #readBody(bytes: Buffer, buffer: Uint8Array): void {
    if (this.#state === states.length) {
      const taken = Math.min(bytes.length, this.#left);
      this.#left -= taken;
      this.#hand(taken === bytes.length ? bytes : bytes.subarray(0, taken), buffer);
      if (this.#left === 0 && this.#carried !== undefined) this.#finish([], bytes.length - taken);
    } else if (this.#state === states.close) {
      this.#hand(bytes, buffer);
    } else {
      this.#readChunks(bytes, buffer);
    }
  }

  #readChunks(bytes: Buffer, buffer: Uint8Array): void {
    const chunks = this.#chunks;
    const carried = this.#carried;
    const used = chunks?.decode(bytes, (content) => this.#hand(content, buffer));
    // Whoever was handed something may have turned away.
    if (chunks === undefined || carried === undefined || this.#carried !== carried) return;
    if (used === -1) this.#malformed("the chunks of the answer are not well-formed");
    else if (used !== undefined) this.#finish(chunks.trailers, bytes.length - used);
  }

  #hand(content: Buffer, buffer: Uint8Array): void {
    const carried = this.#carried;
    if (carried === undefined || content.length === 0) return;
    const release = buffer === shared ? undefined : this.#bulk?.lend(buffer);
    const wantsMore = carried.receiver.onContent(content, release);
    const isExhausted = this.#bulk?.isExhausted === true;
    if ((!wantsMore || isExhausted) && this.#carried === carried) this.#socket.pause();
  }

  /** The answer is complete. What comes behind it belongs to nobody. */
  #finish(trailers: readonly string[], surplus: number): void {
    const carried = this.#carried;
    this.#carried = undefined;
    this.#state = states.idle;
    this.#chunks = undefined;
    this.#bulk?.end();
    this.#bulk = undefined;
    if (carried === undefined) return;
    const isReusable = this.#keepsAlive && surplus === 0 && carried.isSent && !this.#isGone;
    if (isReusable) {
      this.isReused = true;
      if (this.#socket.isPaused()) this.#socket.resume();
    } else {
      this.#socket.destroy();
    }
    carried.receiver.onEnd(trailers);
    if (isReusable) this.#owner.onIdle(this);
  }

  #malformed(message: string): void {
    this.#fail(new RelayFailure("malformed", message));
  }

  #fail(failure: RelayFailure): void {
    this.destroy(failure);
    const carried = this.#carried;
    this.#carried = undefined;
    carried?.receiver.onFailure(failure);
  }

  /** The provider has ended its side. */
  #ended(): void {
    this.hasEnded = true;
    this.workNow();
    if (this.#state === states.close && this.#carried !== undefined) {
      this.#keepsAlive = false;
      this.#finish([], 0);
    }
  }

  #closed(): void {
    this.#isGone = true;
    this.#bulk?.end();
    this.#bulk = undefined;
    const carried = this.#carried;
    this.#carried = undefined;
    const failure =
      this.#failure ?? new RelayFailure(this.#hasAnswered ? "cut_off" : "closed", "the provider ended the connection");
    const hasBegun = this.#hasAnswered || this.#informational > 0 || this.#head !== undefined;
    if (carried !== undefined && hasBegun) {
      carried.receiver.onFailure(this.#hasAnswered ? new RelayFailure("cut_off", failure.message) : failure);
    }
    this.#owner.onGone(this, hasBegun ? undefined : carried, failure);
  }
}

const uncork = (socket: Socket): void => socket.uncork();

/** Whether some of the body has come along; of chunks, more than the size of the first. */
function hasContent(rest: Buffer, { framing }: ResponseHead): boolean {
  if (framing !== "chunked") return rest.length > 0 && framing !== "none";
  const lineEnd = rest.indexOf("\n");
  return lineEnd !== -1 && lineEnd + 1 < rest.length;
}

/** Of the beginning of a head: whether nothing that follows can make it one. */
const isNoHead = (text: string): boolean => !"HTTP/1.".startsWith(text.slice(0, 7)) || /(?:^|[^\r])\n/.test(text);
