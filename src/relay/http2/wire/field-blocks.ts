import { ConnectionError, errorCodes } from "./error-codes.ts";
import { frameFlags } from "./frames.ts";

/** The frames of a field block may have this many bytes together, and this many CONTINUATION frames. */
const maxBlockBytes = 64 * 1024;
const maxContinuations = 8;
const priorityBytes = 5;

/** A field block whose last frame is to come (RFC 9113, 6.10): no other frame may come before. */
export class UnfinishedBlock {
  readonly streamId: number;
  readonly isEndOfStream: boolean;
  readonly #parts: Buffer[];
  #bytes: number;

  constructor(streamId: number, isEndOfStream: boolean, first: Buffer) {
    this.streamId = streamId;
    this.isEndOfStream = isEndOfStream;
    this.#parts = [Buffer.from(first)];
    this.#bytes = first.length;
  }

  add(part: Buffer): void {
    this.#bytes += part.length;
    if (this.#parts.length > maxContinuations || this.#bytes > maxBlockBytes) {
      throw new ConnectionError(errorCodes.enhanceYourCalm, "a field block has too many frames");
    }
    this.#parts.push(Buffer.from(part));
  }

  whole(): Buffer {
    return Buffer.concat(this.#parts);
  }
}

/** Returns the part of a field block in a HEADERS frame: without padding and priority (RFC 9113, 6.2). */
export function fragmentOf(flags: number, payload: Buffer): Buffer {
  let from = 0;
  let to = payload.length;
  if ((flags & frameFlags.padded) !== 0) {
    if (payload.length === 0) throw new ConnectionError(errorCodes.frameSizeError, "a padded frame is empty");
    from = 1;
    to -= payload[0] as number;
  }
  if ((flags & frameFlags.priority) !== 0) from += priorityBytes;
  if (from > payload.length) throw new ConnectionError(errorCodes.frameSizeError, "a HEADERS frame is too short");
  if (to < from) throw new ConnectionError(errorCodes.protocolError, "a frame has too much padding");
  return from === 0 ? payload : payload.subarray(from, to);
}
