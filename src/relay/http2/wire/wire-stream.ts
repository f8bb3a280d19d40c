import { errorCodes } from "./error-codes.ts";
import type { FieldBlock } from "./hpack-decoder.ts";
import type { SendingStream, StreamConnection } from "./stream-connection.ts";

/** Callbacks of a stream, in this order: fields, content, fields of trailers, end; `onClosed` is always the last. */
export interface StreamOwner {
  onFields(block: FieldBlock, isEnd: boolean): void;
  /**
   * `content` is borrowed: it is valid during the call. It is empty for a DATA frame that has none. Returns
   * false when no more is wanted until `resume`.
   */
  onContent(content: Buffer): boolean;
  /** The peer has sent all, and all was given on. */
  onEnd(): void;
  /** More can be written. */
  onDrain(): void;
  /** The stream is over. `code`: of the reset, by the peer or by us, or of the end of the connection. */
  onClosed(code: number): void;
}

/**
 * A stream of a connection, in either role: its state (RFC 9113, 5.1), its windows, and what waits on either way.
 * Received bytes are acknowledged when the owner has taken them: a stream without a reader costs a window of memory at
 * most.
 */
export class WireStream implements SendingStream {
  readonly id: number;
  following: this | undefined = undefined;
  isWaiting = false;
  waitsBehind: SendingStream | undefined = undefined;
  waitsBefore: SendingStream | undefined = undefined;
  readonly #connection: StreamConnection;
  readonly #owner: StreamOwner;
  #sendWindow: number;
  #receiveWindow: number;
  readonly #fullReceiveWindow: number;
  /** Bytes that the owner has taken and the peer has not been told of. */
  #owed = 0;
  isLocalEnded = false;
  isRemoteEnded = false;
  /** No frame of this stream follows, in either direction. */
  isClosed = false;
  #hasReportedEnd = false;
  /** The peer reset the stream without END_STREAM: `onClosed` follows the content. */
  #lacksEnd = false;
  #hasReportedClose = false;
  #isPaused = false;
  /** Content that came while the owner wanted none; the last piece may have room for more. */
  #received: Buffer[] = none;
  #room: Buffer = noRoom;
  #receivedBytes = 0;
  #trailers: FieldBlock | undefined;
  #closeCode: number = errorCodes.noError;
  /** Content that waits for the peer's windows, or for the socket. */
  #toSend: Buffer[] = none;
  #toSendBytes = 0;
  /** Set when the stream ends after `#toSend`. */
  #toEndWith: readonly string[] | undefined;
  #wantsDrain = false;

  constructor(connection: StreamConnection, id: number, owner: StreamOwner) {
    this.#connection = connection;
    this.id = id;
    this.#owner = owner;
    this.#sendWindow = connection.initialSendWindow;
    this.#receiveWindow = connection.streamWindow;
    this.#fullReceiveWindow = connection.streamWindow;
  }

  get unsentBytes(): number {
    return this.#toSendBytes;
  }

  /** Name, value, name, value; names in lower case. `sensitive`: names whose values are never indexed. */
  sendFields(fields: readonly string[], isEnd: boolean, sensitive: readonly string[] = none): void {
    if (this.isClosed || this.isLocalEnded) return;
    this.#connection.writeFields(this.id, fields, isEnd, sensitive);
    if (isEnd) this.#localEnded();
  }

  /** Returns false when `onDrain` will tell that more can be written. `isBorrowed`: copy what cannot be sent now. */
  write(content: Buffer, isBorrowed: boolean): boolean {
    if (this.isClosed || this.isLocalEnded || this.#toEndWith !== undefined) return true;
    const sent = this.#toSendBytes === 0 ? this.#send(content, content.length) : 0;
    if (sent < content.length) {
      const rest = content.subarray(sent);
      if (this.#toSend === none) this.#toSend = [];
      this.#toSend.push(isBorrowed ? Buffer.from(rest) : rest);
      this.#toSendBytes += rest.length;
      this.#connection.queued(rest.length);
    } else if (!this.#connection.isCongested) {
      return true;
    }
    this.#wantsDrain = true;
    this.#connection.addWaiting(this);
    return false;
  }

  /** Ends our side, after everything that was written. */
  end(trailers: readonly string[]): void {
    if (this.isClosed || this.isLocalEnded || this.#toEndWith !== undefined) return;
    this.#toEndWith = trailers;
    if (this.#toSendBytes === 0) this.#finish(trailers);
  }

  /** Whether `onDrain` is to come. */
  get needsDrain(): boolean {
    return this.#wantsDrain;
  }

  /** Whether `end` was called, or the head ended our side. */
  get isEnding(): boolean {
    return this.isLocalEnded || this.#toEndWith !== undefined;
  }

  /** Ends the stream on both sides. `onClosed` follows at once. */
  reset(code: number): void {
    if (this.isClosed) {
      // The peer has sent everything, and the owner wants no more of it.
      this.#dropReceived();
      this.#reportClosed();
      return;
    }
    this.#connection.writeReset(this.id, code);
    this.abandon(code);
  }

  /** Resets the stream because the peer broke a rule. Counted like a reset by the peer: it costs the peer as little. */
  refuse(code: number): void {
    const wasOpen = !this.isClosed;
    this.reset(code);
    if (wasOpen) this.#connection.noteReset();
  }

  /** Keeps what comes until `resume`. */
  pause(): void {
    this.#isPaused = true;
  }

  /** Whether content waits for `resume`. */
  get hasReceived(): boolean {
    return this.#receivedBytes > 0;
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    const received = this.#received;
    this.#received = none;
    for (let i = 0; i < received.length; i += 1) {
      if (this.#hasReportedClose) return;
      const content = received[i] as Buffer;
      if (this.#isPaused) {
        this.#received = received.slice(i);
        return;
      }
      this.#receivedBytes -= content.length;
      this.#give(content);
    }
    this.#room = noRoom;
    if (!this.#isPaused) this.#reportEnd();
  }

  // What follows is called by the connection.

  /** The stream of a client begins with its head, and without a reader of its content. */
  begin(isEnd: boolean): void {
    this.isRemoteEnded = isEnd;
    this.#hasReportedEnd = isEnd;
    this.#isPaused = !isEnd;
  }

  /** A DATA frame begins. Returns false when the peer has exceeded the window. */
  takeFromWindow(length: number): boolean {
    this.#receiveWindow -= length;
    return this.#receiveWindow >= 0;
  }

  /** Bytes of DATA that are no content: padding. */
  skip(length: number): void {
    this.#consumed(length);
  }

  receive(content: Buffer): void {
    if (this.#isPaused) {
      if (content.length > 0) this.#keep(content);
    } else {
      this.#give(content);
    }
  }

  /** Joins small pieces: a buffer for each byte would cost a hundred times as much memory as the window allows. */
  #keep(content: Buffer): void {
    if (this.#received === none) this.#received = [];
    this.#receivedBytes += content.length;
    const last = this.#received.length - 1;
    const used = this.#received[last]?.length ?? 0;
    const isJoined = used > 0 && used + content.length <= this.#room.length;
    if (!isJoined) this.#room = Buffer.allocUnsafeSlow(Math.max(content.length, leastRoom));
    const from = isJoined ? used : 0;
    this.#room.set(content, from);
    this.#received[isJoined ? last : last + 1] = this.#room.subarray(0, from + content.length);
  }

  receiveFields(block: FieldBlock, isEnd: boolean): void {
    if (isEnd && this.#holdsEnd) {
      this.#trailers = block;
      this.receiveEnd();
      return;
    }
    this.#owner.onFields(block, isEnd);
    if (isEnd && !this.isClosed) this.receiveEnd();
  }

  receiveEnd(): void {
    this.isRemoteEnded = true;
    this.#closeIfOver();
    if (!this.#holdsEnd) this.#reportEnd();
  }

  /** The end waits for the content before it, and that of a request for a reader. */
  get #holdsEnd(): boolean {
    return this.#receivedBytes > 0 || (this.#isPaused && this.#connection.isServer);
  }

  receiveReset(code: number): void {
    // The peer has sent all, and only wants no more of ours (RFC 9113, 8.1): what has come before is given on, also if
    // END_STREAM is missing, but then without an end. A client that resets has left.
    if (this.#connection.isServer || (!this.isRemoteEnded && code !== errorCodes.noError)) {
      this.abandon(code);
      return;
    }
    this.#dropToSend();
    this.#lacksEnd = !this.isRemoteEnded;
    this.isRemoteEnded = true;
    this.#close(code);
    if (this.#receivedBytes === 0) this.#reportEnd();
    this.#reportClosed();
  }

  /** The stream ends without another frame. */
  abandon(code: number): void {
    this.#dropToSend();
    this.#dropReceived();
    this.#close(code);
    this.#hasReportedEnd = true;
    this.#reportClosed();
  }

  /** Returns false when the window would be larger than allowed. */
  growSendWindow(by: number): boolean {
    this.#sendWindow += by;
    return this.#sendWindow <= maxSendWindow;
  }

  sendWaiting(mostBytes: number): boolean {
    let left = mostBytes;
    while (this.#toSendBytes > 0 && left > 0) {
      const first = this.#toSend[0] as Buffer;
      const sent = this.#send(first, Math.min(left, first.length));
      if (sent === 0) break;
      left -= sent;
      this.#toSendBytes -= sent;
      this.#connection.queued(-sent);
      if (sent === first.length) this.#toSend.shift();
      else this.#toSend[0] = first.subarray(sent);
    }
    if (this.#toSendBytes > 0 || this.#connection.isCongested) return true;
    if (this.#toEndWith !== undefined) {
      this.#finish(this.#toEndWith);
    } else if (this.#wantsDrain) {
      this.#wantsDrain = false;
      this.#owner.onDrain();
    }
    return this.#toSendBytes > 0;
  }

  /** Returns the number of bytes sent. */
  #send(content: Buffer, most: number): number {
    const connection = this.#connection;
    let sent = 0;
    while (sent < most) {
      const length = Math.min(most - sent, this.#sendWindow, connection.mostToSend);
      if (length <= 0) break;
      const isAll = sent === 0 && length === content.length;
      connection.writeData(this.id, isAll ? content : content.subarray(sent, sent + length));
      this.#sendWindow -= length;
      sent += length;
    }
    return sent;
  }

  #finish(trailers: readonly string[]): void {
    this.#toEndWith = undefined;
    if (trailers.length > 0) this.#connection.writeFields(this.id, trailers, true, none);
    else this.#connection.writeEnd(this.id);
    this.#localEnded();
  }

  #localEnded(): void {
    this.isLocalEnded = true;
    if (this.#connection.isServer) this.#answered();
    else this.#closeIfOver();
    this.#reportClosed();
  }

  /** RFC 9113, 8.1: the response is complete, so that the rest of the request is not wanted, which is no error. */
  #answered(): void {
    if (!this.isRemoteEnded) this.#connection.writeReset(this.id, errorCodes.noError);
    this.#close(errorCodes.noError);
    this.#dropReceived();
  }

  #give(content: Buffer): void {
    const wantsMore = this.#owner.onContent(content);
    if (!wantsMore && !this.#hasReportedClose) this.#isPaused = true;
    this.#consumed(content.length);
  }

  #consumed(length: number): void {
    this.#connection.consumed(length);
    if (this.isClosed || this.isRemoteEnded) return;
    this.#owed += length;
    if (this.#owed < this.#fullReceiveWindow / 2) return;
    this.#connection.writeWindowUpdate(this.id, this.#owed);
    this.#receiveWindow += this.#owed;
    this.#owed = 0;
  }

  #reportEnd(): void {
    if (!this.isRemoteEnded || this.#hasReportedEnd) return;
    const trailers = this.#trailers;
    this.#trailers = undefined;
    if (trailers !== undefined) this.#owner.onFields(trailers, true);
    if (this.#hasReportedEnd) return;
    this.#hasReportedEnd = true;
    if (!this.#lacksEnd) this.#owner.onEnd();
    this.#reportClosed();
  }

  #reportClosed(): void {
    if (!this.isClosed || !this.#hasReportedEnd || this.#hasReportedClose) return;
    this.#hasReportedClose = true;
    this.#owner.onClosed(this.#closeCode);
  }

  #closeIfOver(): void {
    if (this.isLocalEnded && this.isRemoteEnded) this.#close(errorCodes.noError);
  }

  #close(code: number): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.#closeCode = code;
    this.#connection.forget(this);
  }

  #dropToSend(): void {
    if (this.#toSendBytes > 0) this.#connection.queued(-this.#toSendBytes);
    this.#toSend = none;
    this.#toSendBytes = 0;
    this.#toEndWith = undefined;
  }

  #dropReceived(): void {
    this.#hasReportedEnd = true;
    this.#trailers = undefined;
    this.#received = none;
    this.#room = noRoom;
    const left = this.#receivedBytes;
    this.#receivedBytes = 0;
    if (left > 0) this.#connection.consumed(left);
  }
}

const none: never[] = [];
const noRoom = Buffer.alloc(0);
const leastRoom = 4_096;
const maxSendWindow = 2 ** 31 - 1;
