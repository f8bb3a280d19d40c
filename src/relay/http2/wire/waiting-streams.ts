import type { SendingStream } from "./stream-connection.ts";

/** A stream sends this much at a time before the next one does: one frame. */
const turnBytes = 16_384;

/** Streams that wait to send, in turn. */
export class WaitingStreams {
  readonly #waiting = new Set<SendingStream>();

  add(stream: SendingStream): void {
    this.#waiting.add(stream);
  }

  remove(stream: SendingStream): void {
    this.#waiting.delete(stream);
  }

  get isEmpty(): boolean {
    return this.#waiting.size === 0;
  }

  /** Lets a single stream send. */
  sendOf(stream: SendingStream): void {
    if (this.#waiting.delete(stream) && stream.sendWaiting(Number.POSITIVE_INFINITY)) this.#waiting.add(stream);
  }

  /** Lets all streams send in turn, until `isBlocked`, or none can. */
  send(isBlocked: () => boolean): void {
    let hasSent = true;
    while (hasSent && !isBlocked()) {
      hasSent = false;
      for (const stream of [...this.#waiting]) {
        if (isBlocked()) return;
        const before = stream.unsentBytes;
        // Last in the order for the next time.
        this.#waiting.delete(stream);
        if (stream.isClosed) continue;
        if (stream.sendWaiting(turnBytes)) this.#waiting.add(stream);
        if (stream.unsentBytes < before) hasSent = true;
      }
    }
  }
}
