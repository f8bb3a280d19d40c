import type { Socket } from "node:net";
import { createFrameLimit, createSettingsLimit } from "../../../base/http/control-frames.ts";
import { isGone } from "../../../base/http/malformed.ts";
import { ClientPace, closesAtMs } from "../../../base/http/session-deadlines.ts";
import { type LeavingSession, SessionGoaway } from "../../../base/http/session-goaway.ts";
import { LiveSet } from "../../../base/live-set.ts";
import { SharedSocket, type SocketReader } from "../../../base/node/shared-socket.ts";
import { type BatchMember, hasTickEnd, waitsForOthers, writeSoon } from "../../batching.ts";
import { createSocketSink } from "../socket-sink.ts";
import { StreamRequest, type StreamRequestOwner } from "../stream-front.ts";
import { errorCodes, errorName } from "../wire/error-codes.ts";
import type { FieldBlock } from "../wire/hpack-decoder.ts";
import { ServedConnection, type ServedConnectionOwner } from "../wire/served-connection.ts";
import { callerHeadOf } from "./caller-head.ts";
import { HeldResponses } from "./held-responses.ts";
import { ResetLimit } from "./reset-limit.ts";
import { SessionClock, type SessionProgress } from "./session-clock.ts";

/** What a session asks of the listener that it belongs to. */
export interface CallerSessionOwner {
  readonly maxHeadBytes: number;
  readonly maxHeadLines: number;
  /** Limits how long a client may read nothing of a complete response. */
  readonly stallMs: number;
  serve(request: StreamRequest): void;
  /** A client broke the rules and was disconnected. */
  refuse(message: string, peer: string): void;
  closed(session: Http2CallerSession): void;
}

const maxStreams = 100;
/** Flow-control windows: bytes of requests in transit and unread, for each stream and for the session. */
const streamWindow = 128 * 1024;
const sessionWindow = 512 * 1024;
/** A client with more unsent bytes is not read from: each of its frames could cause another one of ours. */
const mostUnsentBytes = 1024 * 1024;
/** A client must read at least this much of a complete response within `stallMs`, or its rest. */
const leastReadBytes = 16 * 1024;

/** An HTTP/2 session with a client, on its socket. A class: no request may cost a closure. */
export class Http2CallerSession
  implements ServedConnectionOwner, StreamRequestOwner, SocketReader, BatchMember, LeavingSession, SessionProgress
{
  readonly #socket: Socket;
  readonly #owner: CallerSessionOwner;
  readonly #peer: string;
  readonly #wire: ServedConnection;
  readonly #requests = new LiveSet<StreamRequest>();
  readonly #goaway: SessionGoaway;
  readonly #clock: SessionClock;
  readonly #pace = new ClientPace();
  readonly #resets = new ResetLimit();
  readonly #held = new HeldResponses();
  readonly #takeControlFrame: () => void;
  readonly #takeSettings: () => void;
  /** Called with the answers to our PINGs, in order. */
  readonly #pongs: (() => void)[] = [];
  /** The session ends with its last stream. */
  #isClosing = false;
  /** Since when our side has ended. */
  #endedMs: number | undefined;
  #endsSoon = false;
  hasSettings = false;

  constructor(socket: Socket, owner: CallerSessionOwner) {
    this.#socket = socket;
    this.#owner = owner;
    this.#peer = socket.remoteAddress ?? "unix";
    this.#clock = new SessionClock(performance.now(), owner.stallMs);
    const flooded = () => this.#refuse("too many PING and SETTINGS frames", errorCodes.enhanceYourCalm);
    this.#takeControlFrame = createFrameLimit(() => socket.bytesWritten, flooded);
    this.#takeSettings = createSettingsLimit(flooded);
    this.#wire = new ServedConnection({
      sink: createSocketSink(socket),
      owner: this,
      streamWindow,
      connectionWindow: sessionWindow,
      maxFields: owner.maxHeadLines,
      maxListBytes: owner.maxHeadBytes,
      maxStreams,
    });
    this.#goaway = new SessionGoaway(this);
    // A client that ends its side has left, although HTTP/1.1 sockets are half-open.
    socket.allowHalfOpen = false;
    socket.on("error", this.#failed).on("end", this.#ended).on("close", this.#closed).on("drain", this.#drained);
    // Also the way of bytes that were unread, when the protocol was decided by them.
    socket.on("data", this.#take);
    if (socket instanceof SharedSocket) socket.readBy(this);
    socket.resume();
  }

  leave(): void {
    this.#goaway.leave();
  }

  drain(): void {
    this.#goaway.drain();
  }

  /** Ends all streams, without an end of their responses. */
  destroy(): void {
    this.#wire.end(errorCodes.noError);
    this.#wire.flush();
    this.#socket.destroy();
  }

  /** Called periodically. */
  sweep(nowMs: number): void {
    this.#pace.look(this.#socket, nowMs);
    const endedMs = this.#endedMs;
    if (endedMs !== undefined) {
      const answeredMs = this.#endsSoon ? undefined : this.#clock.answeredMs;
      const ended = { endedMs, answeredMs, pace: this.#pace, unsentBytes: this.unsentBytes };
      if (nowMs > closesAtMs(ended)) this.#socket.destroy();
      return;
    }
    const verdict = this.#clock.check(this, nowMs);
    if (verdict === "destroy") this.#socket.destroy();
    else if (verdict === "drain") this.#goaway.drain();
    else if (this.#wire.queuedBytes > 0) this.#dropUnread(nowMs);
  }

  // What the socket calls.

  read(length: number, buffer: Buffer): boolean {
    this.#take(buffer.subarray(0, length));
    return true;
  }

  readEnd(): void {}

  nextBuffer(): Buffer | undefined {
    return undefined;
  }

  readonly #take = (bytes: Buffer): void => {
    const wire = this.#wire;
    // After our end, the rest is read and dropped, so that the client sees the end and no reset.
    if (wire.isClosed) return;
    // Counted, so that what all connections write in this tick leaves at its end.
    waitsForOthers();
    wire.read(bytes);
    if (wire.unsentBytes > mostUnsentBytes) this.#socket.pause();
  };

  readonly #drained = (): void => {
    this.#wire.drained();
    if (this.#socket.isPaused()) this.#socket.resume();
  };

  readonly #failed = (error: NodeJS.ErrnoException): void => {
    if (!isGone(error) && this.#endedMs === undefined) this.#owner.refuse(error.message, this.#peer);
    this.#socket.destroy();
  };

  readonly #ended = (): void => {
    this.#wire.lost();
    this.#socket.destroySoon();
  };

  readonly #closed = (): void => {
    this.#wire.lost();
    this.#owner.closed(this);
    this.#endPings();
  };

  // What the end of the tick calls.

  workNow(): void {}

  writeNow(): void {
    this.#wire.flush();
  }

  // What the connection calls.

  onDirty(): void {
    if (hasTickEnd()) writeSoon(this);
    else process.nextTick(flush, this);
  }

  onSettings(): void {
    this.hasSettings = true;
    this.#takeSettings();
  }

  onGoaway(_lastStreamId: number, code: number): void {
    if (code === errorCodes.noError) this.close();
    else this.#refuse(`the client ended the session (${errorName(code)})`, errorCodes.noError);
  }

  onControlFrame(): void {
    this.#takeControlFrame();
  }

  onPong(): void {
    this.#pongs.shift()?.();
  }

  onReset(): void {
    if (!this.#resets.take()) this.#refuse("too many streams were reset", errorCodes.enhanceYourCalm);
  }

  onError({ message }: Error): void {
    this.#owner.refuse(message, this.#peer);
    this.#endsSoon = true;
    this.#end();
  }

  onRequest(streamId: number, block: FieldBlock, isEnd: boolean): void {
    const wire = this.#wire;
    if (wire.openStreams >= maxStreams || this.#held.isFull) {
      this.#refuseStream(streamId, errorCodes.refusedStream);
      return;
    }
    if (block.isTooLarge) {
      this.#refuseStream(streamId, errorCodes.enhanceYourCalm);
      return;
    }
    const head = callerHeadOf(block, isEnd);
    if (head === undefined) {
      this.#refuseStream(streamId, errorCodes.protocolError);
      return;
    }
    const request = new StreamRequest(head, isEnd, this.#socket, this);
    request.begin(wire.accept(streamId, request, isEnd));
    this.#requests.add(request);
    this.#clock.streamOpened();
    this.#goaway.streamOpened(streamId);
    if (!this.#goaway.isLeaving) {
      this.#owner.serve(request);
      return;
    }
    // A stream that ends while it is held is never served.
    this.#goaway.begin(() => {
      if (!request.stream.isClosed) this.#owner.serve(request);
    });
  }

  // What the requests call.

  hold(request: StreamRequest, bytes: number): void {
    request.heldBytes += bytes;
    this.#held.add(bytes);
    if (this.#held.isOverAll) request.stream.reset(errorCodes.enhanceYourCalm);
  }

  over(request: StreamRequest): void {
    this.#held.add(-request.heldBytes);
    this.#requests.delete(request);
    this.#goaway.streamClosed(request.stream.id);
    if (this.#wire.openStreams > 0) return;
    this.#clock.lastStreamClosed(performance.now());
    // Deferred: what the stream ends with may not be written yet.
    if (this.#isClosing) process.nextTick(endIfOver, this);
  }

  // What GOAWAY and the deadlines are decided by.

  get isOver(): boolean {
    return this.#wire.isClosed || this.#isClosing;
  }

  get bytesRead(): number {
    return this.#socket.bytesRead;
  }

  get bytesWritten(): number {
    return this.#socket.bytesWritten;
  }

  get unsentBytes(): number {
    return this.#socket.writableLength;
  }

  get isWithinFrame(): boolean {
    return this.#wire.isWithinFrame;
  }

  get frames(): number {
    return this.#wire.received;
  }

  get openStreams(): number {
    return this.#wire.openStreams;
  }

  ping(done: () => void): void {
    if (this.#wire.isClosed) {
      done();
      return;
    }
    this.#pongs.push(done);
    this.#wire.ping();
  }

  /** No answers come any more. */
  #endPings(): void {
    for (const done of this.#pongs.splice(0)) done();
  }

  announceEnd(): void {
    this.#wire.announceEnd();
  }

  close(): void {
    if (this.isOver) return;
    this.#isClosing = true;
    this.#wire.leave();
    if (this.#wire.openStreams === 0) this.#end();
  }

  endIfOver(): void {
    if (this.#isClosing && this.#wire.openStreams === 0) this.#end();
  }

  #refuseStream(streamId: number, code: number): void {
    this.#wire.refuse(streamId, code);
    if (!this.#resets.take()) this.#refuse("too many streams were malformed or refused", errorCodes.enhanceYourCalm);
  }

  /** Ends the session with an error. */
  #refuse(message: string, code: number): void {
    if (this.#wire.isClosed) return;
    this.#owner.refuse(message, this.#peer);
    this.#endsSoon = true;
    this.#wire.end(code);
    this.#end();
  }

  /** Ends our side, after everything that was written. */
  #end(): void {
    if (this.#endedMs !== undefined) return;
    this.#endedMs = performance.now();
    this.#wire.flush();
    this.#wire.lost();
    this.#endPings();
    this.#socket.end();
    // What the client still sends is dropped.
    this.#socket.resume();
  }

  /** Drops complete responses that the client reads too slowly, or not at all. For incomplete ones, the provider's timeout applies. */
  #dropUnread(nowMs: number): void {
    for (const request of this.#requests.now()) {
      const { stream } = request;
      const bytes = stream.isEnding ? stream.unsentBytes : 0;
      if (request.unreadBytes === 0 || bytes <= Math.max(0, request.unreadBytes - leastReadBytes)) {
        request.unreadBytes = bytes;
        request.unreadSince = nowMs;
      } else if (nowMs - request.unreadSince > this.#owner.stallMs) {
        stream.reset(errorCodes.enhanceYourCalm);
        // A client that stalls sends no further requests.
        this.close();
      }
    }
  }
}

const flush = (session: Http2CallerSession): void => session.writeNow();
const endIfOver = (session: Http2CallerSession): void => session.endIfOver();
