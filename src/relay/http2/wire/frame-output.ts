import { frameFlags, frameHeadBytes, frameTypes, maxFrameBytes } from "./frames.ts";

/** The receiver of a connection's frames: a socket. */
export interface ByteSink {
  /** Takes the bytes. Returns whether the memory of these bytes may be used again at once. */
  write(bytes: Buffer): boolean;
  /** Bytes that were written, and are not yet sent. */
  readonly unsentBytes: number;
}

const slabBytes = 64 * 1024;
const noDataFrame = -1;
const noBytes = Buffer.alloc(0);

/** Buffers for all connections: each is in use from the first frame to the flush, within one tick. */
const freeSlabs: Buffer[] = [];
const maxFreeSlabs = 16;

/**
 * Writes frames into one buffer, which leaves in one write when the caller flushes it, or when it is full. A write costs
 * more than ten small frames.
 */
export class FrameOutput {
  readonly #sink: ByteSink;
  readonly #onDirty: () => void;
  #slab: Buffer = noBytes;
  /** The end of the bytes that wait for the flush. */
  #to = 0;
  /** The DATA frame at the end of these bytes, which can still become the last of its stream. */
  #lastDataAt = noDataFrame;
  #lastDataStream = 0;

  /** `onDirty`: there are bytes to flush, and there were none before. */
  constructor(sink: ByteSink, onDirty: () => void) {
    this.#sink = sink;
    this.#onDirty = onDirty;
  }

  get unsentBytes(): number {
    return this.#to + this.#sink.unsentBytes;
  }

  flush(): void {
    const slab = this.#slab;
    const to = this.#to;
    if (to === 0) return;
    this.#slab = noBytes;
    this.#to = 0;
    this.#lastDataAt = noDataFrame;
    const isFree = this.#sink.write(slab.subarray(0, to));
    if (isFree && slab.length === slabBytes && freeSlabs.length < maxFreeSlabs) freeSlabs.push(slab);
  }

  /** The buffer to write the payload of a frame into, behind the reserved position and `frameHeadBytes`. */
  get bytes(): Buffer {
    return this.#slab;
  }

  /** Makes room for a frame of up to this many payload bytes. Returns the position of the frame in `bytes`. */
  reserve(payloadBytes: number): number {
    const needed = frameHeadBytes + payloadBytes;
    if (this.#slab.length - this.#to < needed) {
      this.flush();
      this.#slab = needed > slabBytes ? Buffer.allocUnsafeSlow(needed) : takeSlab();
    }
    if (this.#to === 0) this.#onDirty();
    return this.#to;
  }

  /** Completes the frame that was written at the reserved position. */
  commit(type: number, flags: number, streamId: number, payloadBytes: number): void {
    const slab = this.#slab;
    const at = this.#to;
    slab[at] = payloadBytes >> 16;
    slab[at + 1] = payloadBytes >> 8;
    slab[at + 2] = payloadBytes;
    slab[at + 3] = type;
    slab[at + 4] = flags;
    slab.writeUInt32BE(streamId, at + 5);
    this.#to = at + frameHeadBytes + payloadBytes;
    this.#lastDataAt = noDataFrame;
  }

  /** Bytes that are no frame: the preface of a client. */
  raw(content: Buffer): void {
    const at = this.reserve(content.length);
    content.copy(this.#slab, at);
    this.#to = at + content.length;
  }

  /** At most `maxFrameBytes`. */
  data(streamId: number, content: Uint8Array, isEnd: boolean): void {
    const at = this.reserve(content.length);
    this.#slab.set(content, at + frameHeadBytes);
    this.commit(frameTypes.data, isEnd ? frameFlags.endStream : 0, streamId, content.length);
    if (isEnd) return;
    this.#lastDataAt = at;
    this.#lastDataStream = streamId;
  }

  /** Ends a stream with its last DATA frame if that was not sent yet, else with an empty one. */
  endData(streamId: number): void {
    if (this.#lastDataAt === noDataFrame || this.#lastDataStream !== streamId) {
      this.data(streamId, nothing, true);
      return;
    }
    this.#slab[this.#lastDataAt + 4] = frameFlags.endStream;
    this.#lastDataAt = noDataFrame;
  }

  /** A whole field block, which is split into several frames if it is too large for one. */
  fields(streamId: number, block: Uint8Array, isEnd: boolean): void {
    for (let from = 0; from === 0 || from < block.length; from += maxFrameBytes) {
      const part = block.subarray(from, from + maxFrameBytes);
      const at = this.reserve(part.length);
      this.#slab.set(part, at + frameHeadBytes);
      const isLast = from + maxFrameBytes >= block.length;
      const flags = (isLast ? frameFlags.endHeaders : 0) | (from === 0 && isEnd ? frameFlags.endStream : 0);
      this.commit(from === 0 ? frameTypes.headers : frameTypes.continuation, flags, streamId, part.length);
    }
  }

  /** Identifier, value, identifier, value. */
  settings(values: readonly number[]): void {
    const at = this.reserve(values.length * 3);
    const bytes = this.#slab;
    for (let i = 0; i < values.length; i += 2) {
      bytes.writeUInt16BE(values[i] ?? 0, at + frameHeadBytes + i * 3);
      bytes.writeUInt32BE(values[i + 1] ?? 0, at + frameHeadBytes + i * 3 + 2);
    }
    this.commit(frameTypes.settings, 0, 0, values.length * 3);
  }

  acknowledgeSettings(): void {
    this.reserve(0);
    this.commit(frameTypes.settings, frameFlags.ack, 0, 0);
  }

  /** `content`: eight bytes. */
  ping(content: Buffer, isAck: boolean): void {
    const at = this.reserve(8);
    const bytes = this.#slab;
    content.copy(bytes, at + frameHeadBytes);
    this.commit(frameTypes.ping, isAck ? frameFlags.ack : 0, 0, 8);
  }

  reset(streamId: number, code: number): void {
    const at = this.reserve(4);
    const bytes = this.#slab;
    bytes.writeUInt32BE(code, at + frameHeadBytes);
    this.commit(frameTypes.resetStream, 0, streamId, 4);
  }

  windowUpdate(streamId: number, increment: number): void {
    const at = this.reserve(4);
    const bytes = this.#slab;
    bytes.writeUInt32BE(increment, at + frameHeadBytes);
    this.commit(frameTypes.windowUpdate, 0, streamId, 4);
  }

  goaway(lastStreamId: number, code: number): void {
    const at = this.reserve(8);
    const bytes = this.#slab;
    bytes.writeUInt32BE(lastStreamId, at + frameHeadBytes);
    bytes.writeUInt32BE(code, at + frameHeadBytes + 4);
    this.commit(frameTypes.goaway, 0, 0, 8);
  }
}

const nothing = new Uint8Array(0);

const takeSlab = (): Buffer => freeSlabs.pop() ?? Buffer.allocUnsafeSlow(slabBytes);
