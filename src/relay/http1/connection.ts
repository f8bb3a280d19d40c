import type { Socket } from "node:net";
import { writeText } from "../../base/node/text-writes.ts";
import { takesMore } from "../backpressure.ts";
import { type BatchMember, hasTickEnd, waitsForOthers, workSoon, writeSoon } from "../batching.ts";
import { dial } from "../dial.ts";
import { failureOf } from "../dial-failure.ts";
import type { Dial } from "../dialing.ts";
import { RelayFailure } from "../failure.ts";
import type { Bulk } from "./bulk.ts";
import { type ChunkDecoder, createChunkDecoder } from "./chunked.ts";
import type { CarriedRequest, ConnectionOwner } from "./connection-owner.ts";
import { type ConnectionPool, PooledConnection } from "./pooled-connection.ts";
import { hasContent, isNoHead, type ResponseHead } from "./response-head.ts";

/** Same limit as in Node and nginx. A provider with a larger head is not supported. */
const maxHeadBytes = 16 * 1024;
const maxInformational = 100;
const sharedBytes = 64 * 1024;
/**
 * Read buffer of all connections: each read is forwarded or copied before the next read. An allocation for each
 * read would cost 2 µs.
 */
const shared = Buffer.allocUnsafeSlow(sharedBytes);

const states = { idle: 0, head: 1, length: 2, chunked: 3, close: 4 } as const;

/**
 * A connection to a provider that carries one request at a time. A class, because there are many connections with
 * many small steps: methods are shared in the prototype, and callbacks of a read cost no closure.
 */
export class Connection<P extends ConnectionPool = ConnectionPool> extends PooledConnection<P> implements BatchMember {
  readonly #owner: ConnectionOwner<Connection<P>>;
  /** Undefined until the connection is established; then `#dial` is. */
  #socket: Socket | undefined;
  #dial: Dial | undefined;
  #carried: CarriedRequest | undefined;
  #state: (typeof states)[keyof typeof states] = states.idle;
  #isGone = false;
  /** Bytes to write once the connection is established. */
  #early: (string | Buffer)[] = [];
  /** Text that was received and waits for the end of this batch. */
  #came: string | undefined;
  /** A request head that waits for the end of this batch. */
  #ready = "";
  #head: Buffer | undefined;
  #informational = 0;
  #hasAnswered = false;
  #keepsAlive = true;
  #left = 0;
  #chunks: ChunkDecoder | undefined;
  #bulk: Bulk | undefined;
  #failure: RelayFailure | undefined;

  constructor(pool: P, owner: ConnectionOwner<Connection<P>>) {
    super(pool);
    this.#owner = owner;
    const { origin, secureContext, session } = pool;
    const callback = (length: number, buffer: Uint8Array) => {
      this.#read(length, buffer);
      return true;
    };
    const onread = { buffer: () => this.#nextBuffer(), callback };
    this.#dial = dial(
      owner.egress,
      { origin, secureContext, session, onread },
      {
        onReady: (socket) => this.#connected(socket),
        onFailed: (failure) => this.#closed(failure),
        onTicket: (ticket) => (pool.session = ticket),
      },
    );
  }

  get isConnecting(): boolean {
    return this.#socket === undefined;
  }

  get isAwaitingAnswer(): boolean {
    return this.#socket !== undefined && this.#carried?.isSent === true && !this.#hasAnswered;
  }

  get isCarrying(): boolean {
    return this.#carried !== undefined;
  }

  /** Begins an exchange with the head of its request. */
  carry(carried: CarriedRequest, head: string): void {
    this.#carried = carried;
    this.#state = states.head;
    this.#hasAnswered = false;
    this.#informational = 0;
    // Available body bytes follow at once: cork them with the head into one write.
    const socket = this.#socket;
    if (!carried.isSent && socket !== undefined) {
      socket.cork();
      process.nextTick(uncork, socket);
    }
    if (carried.isSent && socket !== undefined && hasTickEnd()) {
      this.activity += 1;
      this.#ready = head;
      writeSoon(this);
    } else {
      this.write(head);
    }
  }

  writeNow(): void {
    const head = this.#ready;
    this.#ready = "";
    if (head !== "" && this.#socket !== undefined) writeText(this.#socket, head);
  }

  workNow(): void {
    const came = this.#came;
    this.#came = undefined;
    if (came !== undefined) this.#readText(came, undefined);
  }

  /** Returns false when `onDrain` will report that more bytes can be written. */
  write(bytes: string | Buffer): boolean {
    this.activity += 1;
    const socket = this.#socket;
    if (socket === undefined) {
      this.#early.push(bytes);
      return false;
    }
    this.writeNow();
    if (typeof bytes === "string") writeText(socket, bytes);
    else socket.write(bytes);
    return takesMore(socket);
  }

  /** Joins related writes into one. */
  cork(): void {
    this.#socket?.cork();
  }

  uncork(): void {
    this.#socket?.uncork();
  }

  /** The receiver wants more. */
  resume(): void {
    this.activity += 1;
    if (this.#socket?.isPaused() === true) this.#socket.resume();
  }

  /**
   * Gives up the given request without a callback to its receiver, and closes the connection. Does nothing if the
   * connection carries another request.
   */
  abandon(carried: CarriedRequest): void {
    // The connection may already carry another caller's request.
    if (this.#carried !== carried) return;
    this.#carried = undefined;
    this.destroy(new RelayFailure("closed", "the caller has left"));
  }

  destroy(failure: RelayFailure): void {
    // The owner learns of the close in a later phase of the event loop: until then no request may be given to it.
    this.hasEnded = true;
    if (this.#socket === undefined) {
      // The dial knows what was waited for.
      this.#dial?.giveUp(failure);
      return;
    }
    this.#failure ??= failure;
    this.#socket.destroy();
  }

  /** Closes the connection. A request whose head still waits for the end of this batch is not sent over it. */
  #close(failure: RelayFailure): void {
    this.hasKeptBack = this.#ready !== "";
    this.#ready = "";
    this.destroy(failure);
  }

  #connected(socket: Socket): void {
    this.#socket = socket;
    this.#dial = undefined;
    socket.on("error", (error) => {
      this.hasEnded = true;
      this.#failure ??= failureOf(error, true);
    });
    socket.on("drain", () => this.#carried?.receiver.onDrain());
    socket.on("end", () => this.#ended());
    socket.on("close", () => this.#closed(undefined));
    this.activity += 1;
    this.#carried?.connected();
    const early = this.#early;
    this.#early = [];
    if (early.length === 0) return;
    socket.cork();
    for (const bytes of early) this.write(bytes);
    socket.uncork();
    if (takesMore(socket)) this.#carried?.receiver.onDrain();
  }

  #nextBuffer(): Buffer {
    return this.#bulk?.next() ?? shared;
  }

  #read(length: number, buffer: Uint8Array): void {
    this.workNow();
    // A head that trickles in still counts as late.
    if (this.#state !== states.head) this.activity += 1;
    if (this.#carried === undefined || this.#ready !== "") {
      // No request was sent yet, so these bytes cannot be a response.
      this.#close(new RelayFailure("malformed", "the provider sent bytes without a request"));
      return;
    }
    if (this.#state === states.head && this.#head === undefined && buffer === shared && length <= maxHeadBytes) {
      // Most responses come in one read, and are only parsed as text.
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
    // A read that fills the buffer is one of many: use larger buffers from now on, which need no copy.
    if (length === sharedBytes && this.#bulk === undefined && this.#carried !== undefined) {
      this.#bulk = this.#owner.bulk.take(() => this.resume());
    }
  }

  #readHead(bytes: Buffer): void {
    const all = this.#head === undefined ? bytes : Buffer.concat([this.#head, bytes]);
    this.#head = undefined;
    this.#readText(all.toString("latin1", 0, Math.min(all.length, maxHeadBytes)), all);
  }

  /** `bytes` holds the bytes of the text and of what follows; undefined: nothing follows. */
  #readText(text: string, bytes: Buffer | undefined): void {
    const end = text.indexOf("\r\n\r\n");
    if (end === -1) {
      if (text.length >= maxHeadBytes) this.#malformed("the response's headers are too large");
      else if (isNoHead(text)) this.#malformed("the response's headers are malformed");
      else this.#head = bytes === undefined ? Buffer.from(text, "latin1") : Buffer.from(bytes);
      return;
    }
    const carried = this.#carried;
    const head = this.#owner.readHead(text, carried?.isHead === true);
    if (head === undefined || head.status === 101 || carried === undefined) {
      this.#malformed("the response's headers are malformed");
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
        this.#malformed("the provider sent too many informational responses");
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
    this.activity += 1;
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
    // The receiver may have aborted the request in its callback.
    if (chunks === undefined || carried === undefined || this.#carried !== carried) return;
    if (used === -1) this.#malformed("the response's chunks are malformed");
    else if (used !== undefined) this.#finish(chunks.trailers, bytes.length - used);
  }

  #hand(content: Buffer, buffer: Uint8Array): void {
    const carried = this.#carried;
    if (carried === undefined || content.length === 0) return;
    const release = buffer === shared ? undefined : this.#bulk?.lend(buffer);
    const wantsMore = carried.receiver.onContent(content, release);
    const isExhausted = this.#bulk?.isExhausted === true;
    if ((!wantsMore || isExhausted) && this.#carried === carried) this.#socket?.pause();
  }

  /** Ends a complete response. `surplus` bytes after the response belong to no request. */
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
      if (this.#socket?.isPaused() === true) this.#socket.resume();
    } else {
      this.#socket?.destroy();
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
    if (this.#ready !== "") this.#close(new RelayFailure("closed", "the provider ended the connection"));
    if (this.#state === states.close && this.#carried !== undefined) {
      this.#keepsAlive = false;
      this.#finish([], 0);
    }
  }

  /** `failed`: why the connection could not be established. */
  #closed(failed: RelayFailure | undefined): void {
    this.hasEnded = true;
    this.#isGone = true;
    this.#bulk?.end();
    this.#bulk = undefined;
    const carried = this.#carried;
    this.#carried = undefined;
    const failure =
      failed ??
      this.#failure ??
      new RelayFailure(this.#hasAnswered ? "cut_off" : "closed", "the provider ended the connection");
    const hasBegun = this.#hasAnswered || this.#informational > 0 || this.#head !== undefined;
    if (carried !== undefined && hasBegun) {
      carried.receiver.onFailure(this.#hasAnswered ? new RelayFailure("cut_off", failure.message) : failure);
    }
    this.#owner.onGone(this, hasBegun ? undefined : carried, failure);
  }
}

const uncork = (socket: Socket): void => socket.uncork();
