import { ConnectionError, errorCodes } from "./error-codes.ts";
import { frameFlags, frameHeadBytes, frameTypes, maxFrameBytes } from "./frames.ts";

/** Receives the frames of a connection. All bytes are borrowed: they are valid during the call. */
export interface FrameHandler {
  /** The connection has ended: no more frames are wanted. */
  readonly isClosed: boolean;
  /** A DATA frame begins. `length` counts against flow control, `padding` bytes of it are no content. */
  onDataBegin(streamId: number, length: number, padding: number): void;
  /** Content of the DATA frame that has begun, as it arrives. */
  onDataContent(bytes: Buffer): void;
  onDataEnd(isEndOfStream: boolean): void;
  /** Any other frame. */
  onFrame(type: number, flags: number, streamId: number, payload: Buffer): void;
}

/**
 * Splits the bytes of a connection into frames. The content of DATA is given on as it arrives; other frames are given
 * on when they are complete.
 */
export class FrameInput {
  readonly #handler: FrameHandler;
  /** The beginning of a frame that is not complete. */
  #kept: Buffer | undefined;
  #isInData = false;
  #contentLeft = 0;
  #paddingLeft = 0;
  #isEndOfStream = false;

  constructor(handler: FrameHandler) {
    this.#handler = handler;
  }

  /** Whether a frame other than DATA has begun and is not complete. */
  get isWithinFrame(): boolean {
    return this.#kept !== undefined;
  }

  /** Throws `ConnectionError`. */
  read(bytes: Buffer): void {
    const source = this.#kept === undefined ? bytes : Buffer.concat([this.#kept, bytes]);
    this.#kept = undefined;
    let at = 0;
    while (!this.#handler.isClosed) {
      const next = this.#isInData ? this.#readContent(source, at) : this.#readFrame(source, at);
      if (next === undefined) break;
      at = next;
    }
    if (at < source.length && !this.#isInData && !this.#handler.isClosed) this.#kept = Buffer.from(source.subarray(at));
  }

  /** Returns where the frame ends; undefined: it is not complete. */
  #readFrame(source: Buffer, at: number): number | undefined {
    if (source.length - at < frameHeadBytes) return undefined;
    const length = ((source[at] as number) << 16) | ((source[at + 1] as number) << 8) | (source[at + 2] as number);
    if (length > maxFrameBytes) throw new ConnectionError(errorCodes.frameSizeError, "a frame is too large");
    const type = source[at + 3] as number;
    const flags = source[at + 4] as number;
    const streamId = source.readUInt32BE(at + 5) & 0x7fffffff;
    const begin = at + frameHeadBytes;
    if (type === frameTypes.data) return this.#beginData(source, { begin, length, flags, streamId });
    const end = begin + length;
    if (end > source.length) return undefined;
    this.#handler.onFrame(type, flags, streamId, source.subarray(begin, end));
    return end;
  }

  #beginData(source: Buffer, { begin, length, flags, streamId }: DataFrame): number | undefined {
    let padding = 0;
    let content = begin;
    if ((flags & frameFlags.padded) !== 0) {
      if (length === 0) throw new ConnectionError(errorCodes.frameSizeError, "a padded frame is empty");
      if (begin >= source.length) return undefined;
      padding = (source[begin] as number) + 1;
      if (padding > length) throw new ConnectionError(errorCodes.protocolError, "a frame has too much padding");
      content += 1;
    }
    this.#handler.onDataBegin(streamId, length, padding);
    this.#isInData = true;
    this.#contentLeft = length - padding;
    this.#paddingLeft = Math.max(0, padding - 1);
    this.#isEndOfStream = (flags & frameFlags.endStream) !== 0;
    return content;
  }

  /** Returns undefined when more bytes of the frame are to come. */
  #readContent(source: Buffer, at: number): number | undefined {
    const contentEnd = at + Math.min(this.#contentLeft, source.length - at);
    if (contentEnd > at) {
      this.#contentLeft -= contentEnd - at;
      this.#handler.onDataContent(source.subarray(at, contentEnd));
    }
    const end = contentEnd + Math.min(this.#paddingLeft, source.length - contentEnd);
    this.#paddingLeft -= end - contentEnd;
    if (this.#contentLeft > 0 || this.#paddingLeft > 0) return undefined;
    this.#isInData = false;
    this.#handler.onDataEnd(this.#isEndOfStream);
    return end;
  }
}

interface DataFrame {
  readonly begin: number;
  readonly length: number;
  readonly flags: number;
  readonly streamId: number;
}
