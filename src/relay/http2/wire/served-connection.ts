import { protocolError } from "./frame-checks.ts";
import { FramedConnection, type FramedConnectionOptions, type FramedConnectionOwner } from "./framed-connection.ts";
import { clientPreface, defaultWindow, maxStreamId, settingIds } from "./frames.ts";
import type { FieldBlock } from "./hpack-decoder.ts";
import { PeerSettings } from "./peer-settings.ts";
import { type StreamOwner, WireStream } from "./wire-stream.ts";

export interface ServedConnectionOwner extends FramedConnectionOwner {
  /** A client begins a stream: call `accept` or `refuse`, at once. */
  onRequest(streamId: number, block: FieldBlock, isEnd: boolean): void;
  /** A client has reset a stream that was open, or has broken a rule so that we reset it. */
  onReset(): void;
}

interface ServedConnectionOptions extends FramedConnectionOptions {
  readonly owner: ServedConnectionOwner;
  /** The limits that the client is told. */
  readonly maxStreams: number;
}

/** Clients number their streams without gaps: ranges beyond these are not remembered. */
const maxSkipped = 16;

/** The server side of an HTTP/2 connection. */
export class ServedConnection extends FramedConnection {
  readonly isServer = true;
  readonly #owner: ServedConnectionOwner;
  /** Bytes of the client's preface that have arrived. */
  #prefaceBytes = 0;
  /** The highest stream that the client has begun, and the highest that is served. */
  #lastId = 0;
  #lastServed = 0;
  /** Numbers that the client has passed over, in ranges. */
  readonly #skipped: { readonly from: number; readonly to: number }[] = [];
  /** The client was told which stream is the last: further streams are ignored (RFC 9113, 6.8). */
  #isLeaving = false;

  constructor(options: ServedConnectionOptions) {
    super(options, new PeerSettings(false));
    const { owner, streamWindow, connectionWindow, maxStreams, maxListBytes } = options;
    this.#owner = owner;
    this.output.settings([
      ...[settingIds.maxConcurrentStreams, maxStreams],
      ...[settingIds.initialWindowSize, streamWindow],
      ...[settingIds.maxHeaderListSize, maxListBytes],
    ]);
    this.output.windowUpdate(0, connectionWindow - defaultWindow);
  }

  override read(bytes: Buffer): void {
    if (this.#prefaceBytes === clientPreface.length) super.read(bytes);
    else this.#readPreface(bytes);
  }

  /** RFC 9113, 3.4. */
  #readPreface(bytes: Buffer): void {
    if (this.isClosed) return;
    const from = this.#prefaceBytes;
    const length = Math.min(bytes.length, clientPreface.length - from);
    if (bytes.compare(clientPreface, from, from + length, 0, length) !== 0) {
      const error = protocolError("the connection does not begin with the preface of HTTP/2");
      this.end(error.code);
      this.#owner.onError(error);
      return;
    }
    this.#prefaceBytes += length;
    if (bytes.length > length) super.read(bytes.subarray(length));
  }

  /** Serves the stream. `isEnd`: the client has sent the whole request. */
  accept(streamId: number, owner: StreamOwner, isEnd: boolean): WireStream {
    const stream = new WireStream(this, streamId, owner);
    this.#lastServed = streamId;
    this.streams.add(stream);
    stream.begin(isEnd);
    return stream;
  }

  refuse(streamId: number, code: number): void {
    this.output.reset(streamId, code);
  }

  /** Tells the client to begin no further streams, and serves those that are on their way. */
  announceEnd(): void {
    if (!this.isClosed && !this.#isLeaving) this.output.goaway(maxStreamId, 0);
  }

  /** Tells the client which stream was the last. */
  leave(): void {
    if (this.isClosed || this.#isLeaving) return;
    this.#isLeaving = true;
    this.output.goaway(this.#lastId, 0);
  }

  protected known(streamId: number, frame: string): WireStream | undefined {
    const stream = this.streams.get(streamId);
    if (stream !== undefined) return stream;
    // We open no streams; streams that the client has not begun are idle.
    if (streamId % 2 === 0 || streamId > this.#lastId) throw protocolError(`${frame} on a stream that is not open`);
    return undefined;
  }

  override noteReset(): void {
    this.#owner.onReset();
  }

  protected expectBlock(streamId: number): void {
    if (streamId % 2 === 0) throw protocolError("a client begins a stream with a number of the server");
    // RFC 9113, 5.1.1. HEADERS of a stream that was open may have crossed our reset.
    const wasSkipped = this.#skipped.some(({ from, to }) => streamId >= from && streamId <= to);
    if (wasSkipped) throw protocolError("a client begins a stream with a number below its last one");
  }

  protected takeBlock(streamId: number, block: FieldBlock, isEnd: boolean): void {
    // A frame that has crossed the end of its stream.
    if (streamId <= this.#lastId) return;
    const next = this.#lastId === 0 ? 1 : this.#lastId + 2;
    if (streamId > next && this.#skipped.length < maxSkipped) this.#skipped.push({ from: next, to: streamId - 2 });
    this.#lastId = streamId;
    if (!this.#isLeaving) this.#owner.onRequest(streamId, block, isEnd);
  }

  protected takeGoaway(lastStreamId: number, code: number): void {
    this.#owner.onGoaway(lastStreamId, code);
  }

  protected writeGoaway(code: number): void {
    this.output.goaway(this.#lastServed, code);
  }
}
