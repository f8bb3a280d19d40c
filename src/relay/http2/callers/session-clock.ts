import { settingsMs, silentMs, withoutStreamMs, writtenBytes } from "../../../base/http/session-deadlines.ts";

/** What the deadlines of a session are judged by. */
export interface SessionProgress {
  /** Bytes from the client, and to it. */
  readonly bytesRead: number;
  readonly bytesWritten: number;
  /** Bytes of `bytesWritten` that the socket has not sent. */
  readonly unsentBytes: number;
  /** Whether a frame or a head has begun to arrive, and is not complete. */
  readonly isWithinFrame: boolean;
  /** Frames, whole heads, and pieces of DATA that have arrived. */
  readonly frames: number;
  readonly hasSettings: boolean;
  readonly openStreams: number;
  ping(done: () => void): void;
}

export type SessionVerdict = "goes on" | "drain" | "destroy";

/** A frame, and a head with all its frames, must arrive within this time, as the head of HTTP/1.1. */
const frameMs = 10_000;

/** Deadlines of a session with a client. PINGs of the client do not extend those for requests. */
export class SessionClock {
  readonly #openedMs: number;
  readonly #stallMs: number;
  #idleSinceMs: number;
  #heardMs: number;
  #hasCarried = false;
  #isDraining = false;
  #bytesRead = 0;
  #bytesWritten = 0;
  /** Frames at the last check with progress, and its time. */
  #frames = 0;
  #progressMs: number;
  /** Bytes that had left the socket at the last progress, and its time. */
  #sentBytes = 0;
  #sentMs: number;
  /** Since when the client owes the answer to a PING. */
  #waitingSinceMs: number | undefined;

  /** `stallMs`: how long a client may read nothing of what was sent. */
  constructor(nowMs: number, stallMs: number) {
    this.#openedMs = nowMs;
    this.#stallMs = stallMs;
    this.#sentMs = nowMs;
    this.#idleSinceMs = nowMs;
    this.#heardMs = nowMs;
    this.#progressMs = nowMs;
  }

  /** When the last response was complete; undefined: there was no request. */
  get answeredMs(): number | undefined {
    return this.#hasCarried ? this.#idleSinceMs : undefined;
  }

  streamOpened(): void {
    this.#hasCarried = true;
  }

  lastStreamClosed(nowMs: number): void {
    this.#idleSinceMs = nowMs;
  }

  check(session: SessionProgress, nowMs: number): SessionVerdict {
    if (!session.hasSettings) return nowMs - this.#openedMs > settingsMs ? "destroy" : "goes on";
    if (this.#isUnread(session, nowMs)) return "destroy";
    if (this.#isStuck(session, nowMs) || this.#isSilent(session, nowMs)) return "destroy";
    const mayTakeMs = withoutStreamMs(this.#hasCarried);
    if (session.openStreams > 0 || this.#isDraining || nowMs - this.#idleSinceMs <= mayTakeMs) return "goes on";
    this.#isDraining = true;
    return "drain";
  }

  /** Whether the client reads nothing, although it may send frames. */
  #isUnread({ bytesWritten, unsentBytes }: SessionProgress, nowMs: number): boolean {
    const sentBytes = bytesWritten - unsentBytes;
    if (unsentBytes > 0 && sentBytes === this.#sentBytes) return nowMs - this.#sentMs > this.#stallMs;
    this.#sentBytes = sentBytes;
    this.#sentMs = nowMs;
    return false;
  }

  /** Whether a frame or head has been arriving for too long. */
  #isStuck({ isWithinFrame, frames }: SessionProgress, nowMs: number): boolean {
    if (isWithinFrame && frames === this.#frames) return nowMs - this.#progressMs > frameMs;
    this.#frames = frames;
    this.#progressMs = nowMs;
    return false;
  }

  #isSilent(session: SessionProgress, nowMs: number): boolean {
    const hasHeard = session.bytesRead !== this.#bytesRead;
    const isWritten = session.bytesWritten - this.#bytesWritten > writtenBytes;
    this.#bytesRead = session.bytesRead;
    this.#bytesWritten = session.bytesWritten;
    if (hasHeard || isWritten) {
      this.#heardMs = nowMs;
      if (this.#waitingSinceMs !== undefined) this.#waitingSinceMs = nowMs;
      return false;
    }
    if (this.#waitingSinceMs !== undefined) return nowMs - this.#waitingSinceMs > silentMs;
    if (nowMs - this.#heardMs > silentMs) {
      this.#waitingSinceMs = nowMs;
      session.ping(() => {
        this.#waitingSinceMs = undefined;
      });
    }
    return false;
  }
}
