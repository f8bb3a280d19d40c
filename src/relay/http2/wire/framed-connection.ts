import { ConnectionError, errorCodes } from "./error-codes.ts";
import { fragmentOf, UnfinishedBlock } from "./field-blocks.ts";
import { protocolError, requireLength, requirePriority } from "./frame-checks.ts";
import { type FrameHandler, FrameInput } from "./frame-input.ts";
import { type ByteSink, FrameOutput } from "./frame-output.ts";
import { defaultWindow, frameFlags, frameHeadBytes, frameTypes, maxFrameBytes, maxWindow } from "./frames.ts";
import { type FieldBlock, HpackDecoder } from "./hpack-decoder.ts";
import { bytesFor, HpackEncoder } from "./hpack-encoder.ts";
import type { PeerSettings } from "./peer-settings.ts";
import type { SendingStream, StreamConnection } from "./stream-connection.ts";
import { StreamTable } from "./stream-table.ts";
import { WaitingStreams } from "./waiting-streams.ts";
import type { WireStream } from "./wire-stream.ts";

/** Callbacks of a connection. */
export interface FramedConnectionOwner {
  /** There are bytes to flush; called once until `flush`. */
  onDirty(): void;
  /** The peer's SETTINGS have arrived. */
  onSettings(): void;
  onGoaway(lastStreamId: number, code: number): void;
  /** A frame that costs the peer nothing: PING, SETTINGS, or DATA without content. */
  onControlFrame(): void;
  /** The peer has answered a PING; answers come in the order of the PINGs. */
  onPong?(): void;
  /** The peer broke a rule. The connection is closed, and a GOAWAY is ready to be flushed. */
  onError(error: ConnectionError): void;
}

export interface FramedConnectionOptions {
  readonly sink: ByteSink;
  readonly owner: FramedConnectionOwner;
  readonly streamWindow: number;
  readonly connectionWindow: number;
  /** Limits a field block of the peer. */
  readonly maxFields: number;
  readonly maxListBytes: number;
}

/** With more unsent bytes, streams keep their content back. */
const congestedBytes = 128 * 1024;
const pingBytes = 8;
const noContent = Buffer.alloc(0);

/** What both roles of an HTTP/2 connection share (RFC 9113), over bytes: without a socket, and without timers. */
export abstract class FramedConnection implements FrameHandler, StreamConnection {
  abstract readonly isServer: boolean;
  readonly streamWindow: number;
  readonly peer: PeerSettings;
  isClosed = false;
  /** Content of all streams that waits for the peer's windows, or for the socket. */
  queuedBytes = 0;
  /** Counts what has arrived: frames, whole field blocks, and pieces of DATA. */
  received = 0;
  protected readonly streams = new StreamTable<WireStream>();
  protected readonly output: FrameOutput;
  readonly #owner: FramedConnectionOwner;
  readonly #input = new FrameInput(this);
  readonly #decoder: HpackDecoder;
  readonly #encoder = new HpackEncoder();
  readonly #waiting = new WaitingStreams();
  readonly #isBlocked = () => this.isCongested || this.#sendWindow <= 0;
  #sendWindow = defaultWindow;
  /** Bytes that the peer may still send. */
  #receiveWindow: number;
  readonly #fullReceiveWindow: number;
  #owed = 0;
  /** PINGs that the peer has not answered. */
  #pings = 0;
  #block: UnfinishedBlock | undefined;
  /** The stream of the DATA frame that is being read; undefined: its content is discarded. */
  #dataStream: WireStream | undefined;

  constructor(options: FramedConnectionOptions, peer: PeerSettings) {
    const { sink, owner, streamWindow, connectionWindow, maxFields, maxListBytes } = options;
    this.#owner = owner;
    this.peer = peer;
    this.streamWindow = streamWindow;
    this.#receiveWindow = connectionWindow;
    this.#fullReceiveWindow = connectionWindow;
    this.output = new FrameOutput(sink, () => owner.onDirty());
    this.#decoder = new HpackDecoder({ maxFields, maxListBytes });
  }

  /** Returns the stream that a frame concerns; undefined: the stream is over, and the frame has crossed its end. */
  protected abstract known(streamId: number, frame: string): WireStream | undefined;
  /** A HEADERS frame begins a field block. Throws if the stream may have none. */
  protected abstract expectBlock(streamId: number): void;
  /** A field block is complete. */
  protected abstract takeBlock(streamId: number, block: FieldBlock, isEndOfStream: boolean): void;
  /** The peer begins no further streams, or answers none beyond this one. */
  protected abstract takeGoaway(lastStreamId: number, code: number): void;
  protected abstract writeGoaway(code: number): void;
  get initialSendWindow(): number {
    return this.peer.initialWindow;
  }

  get isCongested(): boolean {
    return this.output.unsentBytes > congestedBytes;
  }

  get unsentBytes(): number {
    return this.output.unsentBytes;
  }

  get mostToSend(): number {
    return this.isCongested ? 0 : Math.min(this.#sendWindow, maxFrameBytes);
  }

  get openStreams(): number {
    return this.streams.size;
  }

  /** Whether a frame has begun to arrive, other than DATA, or a field block, and is not complete. */
  get isWithinFrame(): boolean {
    return this.#block !== undefined || this.#input.isWithinFrame;
  }

  /** Handles bytes from the peer, which are borrowed. */
  read(bytes: Buffer): void {
    if (this.isClosed) return;
    try {
      this.#input.read(bytes);
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error;
      this.end(error.code);
      this.#owner.onError(error);
    }
  }

  flush(): void {
    this.output.flush();
  }

  /** The socket takes more bytes. */
  drained(): void {
    this.#sendWaiting();
  }

  ping(): void {
    this.#pings += 1;
    this.output.ping(Buffer.alloc(pingBytes), false);
  }

  /** Announces the end with GOAWAY, and ends all streams with this code. */
  end(code: number): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.writeGoaway(code);
    this.#abandonAll(code);
  }

  /** The socket has closed. */
  lost(): void {
    this.isClosed = true;
    this.#abandonAll(errorCodes.cancel);
  }

  #abandonAll(code: number): void {
    for (const stream of this.streams.now()) stream.abandon(code);
  }

  // What the input calls.

  onDataBegin(streamId: number, length: number, padding: number): void {
    this.#requireSettings(frameTypes.data);
    if (this.#block !== undefined) throw protocolError("a frame comes within a field block");
    const stream = this.known(streamId, "DATA");
    this.#receiveWindow -= length;
    if (this.#receiveWindow < 0) {
      throw new ConnectionError(errorCodes.flowControlError, "the peer exceeded the connection's window");
    }
    this.#dataStream = stream;
    if (length === 0) this.#owner.onControlFrame();
    if (stream === undefined) {
      this.consumed(padding);
    } else if (stream.isRemoteEnded) {
      throw new ConnectionError(errorCodes.streamClosed, "DATA follows the end of its stream");
    } else if (stream.takeFromWindow(length)) {
      if (padding > 0) stream.skip(padding);
      if (length === padding) stream.receive(noContent);
    } else {
      this.consumed(padding);
      this.#dataStream = undefined;
      stream.refuse(errorCodes.flowControlError);
    }
  }

  onDataContent(bytes: Buffer): void {
    this.received += 1;
    const stream = this.#dataStream;
    if (stream === undefined || stream.isClosed) this.consumed(bytes.length);
    else stream.receive(bytes);
  }

  onDataEnd(isEndOfStream: boolean): void {
    this.received += 1;
    const stream = this.#dataStream;
    this.#dataStream = undefined;
    if (isEndOfStream && stream !== undefined && !stream.isClosed) stream.receiveEnd();
  }

  onFrame(type: number, flags: number, streamId: number, payload: Buffer): void {
    this.#requireSettings(type);
    if (this.#block !== undefined && type !== frameTypes.continuation) {
      throw protocolError("a frame comes within a field block");
    }
    if (type === frameTypes.headers) {
      this.#onHeaders(flags, streamId, payload);
      return;
    }
    if (type === frameTypes.continuation) {
      this.#onContinuation(flags, streamId, payload);
      return;
    }
    this.received += 1;
    if (type === frameTypes.windowUpdate) this.#onWindowUpdate(streamId, payload);
    else if (type === frameTypes.resetStream) this.#onReset(streamId, payload);
    else if (type === frameTypes.settings) this.#onSettings(flags, streamId, payload);
    else if (type === frameTypes.ping) this.#onPing(flags, streamId, payload);
    else if (type === frameTypes.goaway) this.#onGoaway(streamId, payload);
    else if (type === frameTypes.priority) requirePriority(streamId, payload);
    // RFC 9113, 8.4: we have forbidden pushes, and a client must never push.
    else if (type === frameTypes.pushPromise) throw protocolError("the peer pushes");
    // RFC 9113, 5.5: unknown types are ignored.
  }

  #onHeaders(flags: number, streamId: number, payload: Buffer): void {
    this.expectBlock(streamId);
    const fragment = fragmentOf(flags, payload);
    const isEndOfStream = (flags & frameFlags.endStream) !== 0;
    if ((flags & frameFlags.endHeaders) === 0) this.#block = new UnfinishedBlock(streamId, isEndOfStream, fragment);
    else this.#readBlock(streamId, isEndOfStream, fragment);
  }

  #onContinuation(flags: number, streamId: number, payload: Buffer): void {
    const block = this.#block;
    if (block === undefined || block.streamId !== streamId) throw protocolError("CONTINUATION without HEADERS");
    block.add(payload);
    if ((flags & frameFlags.endHeaders) === 0) return;
    this.#block = undefined;
    this.#readBlock(streamId, block.isEndOfStream, block.whole());
  }

  /** Decodes every block, also of a stream that is over: the table is shared. */
  #readBlock(streamId: number, isEndOfStream: boolean, bytes: Buffer): void {
    this.received += 1;
    const block = this.#decoder.decode(bytes, 0, bytes.length);
    const stream = this.streams.get(streamId);
    if (stream === undefined) {
      this.takeBlock(streamId, block, isEndOfStream);
      return;
    }
    if (stream.isRemoteEnded) {
      throw new ConnectionError(errorCodes.streamClosed, "HEADERS follow the end of their stream");
    }
    stream.receiveFields(block, isEndOfStream);
  }

  #onWindowUpdate(streamId: number, payload: Buffer): void {
    requireLength(payload, 4, "WINDOW_UPDATE");
    const increment = payload.readUInt32BE(0) & maxWindow;
    if (streamId === 0) {
      if (increment === 0) throw protocolError("a WINDOW_UPDATE adds nothing");
      const wasBlocked = this.#sendWindow <= 0;
      this.#sendWindow += increment;
      if (this.#sendWindow > maxWindow) throw new ConnectionError(errorCodes.flowControlError, "a window is too large");
      if (wasBlocked) this.#sendWaiting();
      return;
    }
    const stream = this.known(streamId, "WINDOW_UPDATE");
    if (stream === undefined) return;
    if (increment === 0) stream.refuse(errorCodes.protocolError);
    else if (!stream.growSendWindow(increment)) stream.refuse(errorCodes.flowControlError);
    else this.#waiting.sendOf(stream);
  }

  #onReset(streamId: number, payload: Buffer): void {
    requireLength(payload, 4, "RST_STREAM");
    const stream = this.known(streamId, "RST_STREAM");
    if (stream === undefined) return;
    this.noteReset();
    stream.receiveReset(payload.readUInt32BE(0));
  }

  #onSettings(flags: number, streamId: number, payload: Buffer): void {
    if (streamId !== 0) throw protocolError("SETTINGS on a stream");
    if ((flags & frameFlags.ack) !== 0) {
      if (!this.peer.hasArrived) throw protocolError("the first frame acknowledges SETTINGS");
      requireLength(payload, 0, "acknowledged SETTINGS");
      return;
    }
    const before = this.peer.initialWindow;
    this.peer.read(payload);
    this.#encoder.resize(this.peer.headerTableSize);
    this.output.acknowledgeSettings();
    const change = this.peer.initialWindow - before;
    if (change !== 0) {
      for (const stream of this.streams.now()) {
        if (stream.growSendWindow(change)) continue;
        throw new ConnectionError(errorCodes.flowControlError, "a window is too large");
      }
    }
    this.#owner.onControlFrame();
    this.#owner.onSettings();
    if (change > 0) this.#sendWaiting();
  }

  #onPing(flags: number, streamId: number, payload: Buffer): void {
    if (streamId !== 0) throw protocolError("PING on a stream");
    requireLength(payload, pingBytes, "PING");
    if ((flags & frameFlags.ack) !== 0) {
      if (this.#pings === 0) throw protocolError("the peer answers a PING that was not sent");
      this.#pings -= 1;
      this.#owner.onPong?.();
      return;
    }
    this.#owner.onControlFrame();
    if (!this.isClosed) this.output.ping(payload, true);
  }

  #onGoaway(streamId: number, payload: Buffer): void {
    if (streamId !== 0) throw protocolError("GOAWAY on a stream");
    if (payload.length < 8) throw new ConnectionError(errorCodes.frameSizeError, "a GOAWAY frame is too short");
    this.takeGoaway(payload.readUInt32BE(0) & maxWindow, payload.readUInt32BE(4));
  }

  /** RFC 9113, 3.4. */
  #requireSettings(type: number): void {
    if (!this.peer.hasArrived && type !== frameTypes.settings) throw protocolError("the first frame is not SETTINGS");
  }

  // What streams call.

  noteReset(): void {}

  writeFields(streamId: number, fields: readonly string[], isEnd: boolean, sensitive: readonly string[]): void {
    const most = bytesFor(fields);
    const isSmall = most <= maxFrameBytes;
    const at = isSmall ? this.output.reserve(most) + frameHeadBytes : 0;
    const bytes = isSmall ? this.output.bytes : Buffer.allocUnsafe(most);
    this.#encoder.begin(bytes, at);
    for (let i = 0; i < fields.length; i += 2) {
      const name = fields[i] as string;
      this.#encoder.field(name, fields[i + 1] as string, sensitive.includes(name));
    }
    const length = this.#encoder.end() - at;
    if (isSmall) {
      const flags = frameFlags.endHeaders | (isEnd ? frameFlags.endStream : 0);
      this.output.commit(frameTypes.headers, flags, streamId, length);
    } else {
      this.output.fields(streamId, bytes.subarray(0, length), isEnd);
    }
  }

  writeData(streamId: number, content: Buffer): void {
    this.#sendWindow -= content.length;
    this.output.data(streamId, content, false);
  }

  writeEnd(streamId: number): void {
    this.output.endData(streamId);
  }

  writeReset(streamId: number, code: number): void {
    this.output.reset(streamId, code);
  }

  writeWindowUpdate(streamId: number, increment: number): void {
    this.output.windowUpdate(streamId, increment);
  }

  consumed(length: number): void {
    this.#owed += length;
    if (this.#owed < this.#fullReceiveWindow / 2 || this.isClosed) return;
    this.output.windowUpdate(0, this.#owed);
    this.#receiveWindow += this.#owed;
    this.#owed = 0;
  }

  queued(bytes: number): void {
    this.queuedBytes += bytes;
  }

  addWaiting(stream: SendingStream): void {
    this.#waiting.add(stream);
  }

  forget(stream: SendingStream): void {
    this.streams.delete(stream.id);
    this.#waiting.remove(stream);
  }

  #sendWaiting(): void {
    if (!this.#waiting.isEmpty) this.#waiting.send(this.#isBlocked);
  }
}
