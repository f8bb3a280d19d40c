import type { SendingStream } from "./stream-connection.ts";

/** A stream sends this much at a time before the next one does: one frame. */
const turnBytes = 16_384;

/**
 * Streams that wait to send, in turn. A list through the streams themselves: a Set would keep closed streams alive, as
 * `LiveSet` explains, and `LiveSet` has no order. So a stream that leaves points to no other.
 */
export class WaitingStreams {
  #first: SendingStream | undefined;
  #last: SendingStream | undefined;

  add(stream: SendingStream): void {
    if (stream.isWaiting) return;
    stream.isWaiting = true;
    stream.waitsBehind = this.#last;
    if (this.#last === undefined) this.#first = stream;
    else this.#last.waitsBefore = stream;
    this.#last = stream;
  }

  /** Returns whether the stream was waiting. */
  remove(stream: SendingStream): boolean {
    if (!stream.isWaiting) return false;
    const { waitsBehind, waitsBefore } = stream;
    if (waitsBehind === undefined) this.#first = waitsBefore;
    else waitsBehind.waitsBefore = waitsBefore;
    if (waitsBefore === undefined) this.#last = waitsBehind;
    else waitsBefore.waitsBehind = waitsBehind;
    stream.isWaiting = false;
    stream.waitsBehind = undefined;
    stream.waitsBefore = undefined;
    return true;
  }

  get isEmpty(): boolean {
    return this.#first === undefined;
  }

  /** Lets a single stream send. */
  sendOf(stream: SendingStream): void {
    if (this.remove(stream) && stream.sendWaiting(Number.POSITIVE_INFINITY)) this.add(stream);
  }

  /** Lets all streams send in turn, until `isBlocked`, or none can. */
  send(isBlocked: () => boolean): void {
    let hasSent = true;
    while (hasSent && !isBlocked()) {
      hasSent = false;
      for (const stream of this.#now()) {
        if (isBlocked()) return;
        const before = stream.unsentBytes;
        // Last in the order for the next time.
        this.remove(stream);
        if (stream.isClosed) continue;
        if (stream.sendWaiting(turnBytes)) this.add(stream);
        if (stream.unsentBytes < before) hasSent = true;
      }
    }
  }

  /** Returns a copy, so that streams may leave while it is visited. */
  #now(): readonly SendingStream[] {
    const all: SendingStream[] = [];
    for (let one = this.#first; one !== undefined; one = one.waitsBefore) all.push(one);
    return all;
  }
}
