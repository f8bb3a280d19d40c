import { setImmediate as nextTick, setTimeout as sleep } from "node:timers/promises";

/** What an HTTP/2 session with a client must be able to do to end without losing a request. */
export interface LeavingSession {
  /** The session has closed, or ends with its last stream. */
  readonly isOver: boolean;
  /** Calls back when the client has read all that was sent so far, or when the session has closed. */
  ping(done: () => void): void;
  /** Tells the client to begin no further streams, with a GOAWAY that excludes no stream. */
  announceEnd(): void;
  /**
   * Called when every stream that the client began before it read `announceEnd` has arrived. A session that has ignored
   * them tells the client which stream was the last, so that the client repeats them at once.
   */
  onAllArrived?(): void;
  /** Tells the client which stream was the last, and ends the session with its last stream. */
  close(): void;
}

/** Longest wait, while streams are held, for answers to end and for a PING to come back. */
const patienceMs = 250;
/**
 * Longest wait for the PING behind the first GOAWAY. Streams are served meanwhile, so that a slow client loses nothing
 * by it; a client that never answers a PING holds up a stop for this time.
 */
const roundTripMs = 1_000;
/** Streams that the client began before it read the first GOAWAY have this time more than a round trip to arrive. */
const crossingMs = 50;

/**
 * Ends a session so that no request is lost (RFC 9113, 6.8). A client sends its next request when it has read a
 * response. If a GOAWAY follows that response, Node's client cancels the request as refused, and connect-node fails (221
 * calls in 100 shutdowns with 20 callers). So GOAWAY is sent while no data is on its way to the client: new streams are
 * held until all earlier ones have ended and a PING came back, and are served after the GOAWAY.
 */
export class SessionGoaway {
  readonly #session: LeavingSession;
  readonly #held: (() => void)[] = [];
  #openStreams = 0;
  #lastStream = 0;
  /** The lowest stream that is held, and the number of open streams below it. */
  #firstHeld = 0;
  #earlierStreams = 0;
  #isLeaving = false;
  #isEnding = false;
  #telling: Promise<void> | undefined;
  #isTold = false;
  /** Set with the first GOAWAY. */
  #crossed: Promise<void> | undefined;
  #onBegun: (() => void) | undefined;
  #onAnswered: (() => void) | undefined;

  constructor(session: LeavingSession) {
    this.#session = session;
  }

  /** Whether streams have to pass through `begin`. */
  get isLeaving(): boolean {
    return this.#isLeaving;
  }

  /** Call for every stream, in the order of their numbers, before `begin`. */
  streamOpened(streamId: number): void {
    this.#openStreams += 1;
    this.#lastStream = streamId;
    this.#onBegun?.();
  }

  streamClosed(streamId: number): void {
    this.#openStreams -= 1;
    if (streamId >= this.#firstHeld) return;
    this.#earlierStreams -= 1;
    if (this.#earlierStreams === 0) this.#onAnswered?.();
  }

  /** Serves the stream that was opened last, in a session that is left: at once, or after a short hold. */
  begin(serve: () => void): void {
    this.#telling ??= this.#tellWhenRead(this.#lastStream, this.#openStreams - 1);
    if (this.#isTold) serve();
    else this.#held.push(serve);
  }

  /** Sends GOAWAY to the client with its next stream, and keeps serving. */
  leave(): void {
    this.#isLeaving = true;
  }

  /** Sends GOAWAY to the client as soon as it has read all answers; the session ends when its streams have ended. */
  drain(): void {
    this.#isLeaving = true;
    if (this.#isEnding) return;
    this.#isEnding = true;
    void this.#end();
  }

  async #tellWhenRead(firstHeld: number, earlierStreams: number): Promise<void> {
    this.#firstHeld = firstHeld;
    this.#earlierStreams = earlierStreams;
    if (this.#earlierStreams > 0) {
      await patiently((done) => {
        this.#onAnswered = done;
      });
    }
    await this.#hasRead();
    this.#tell();
  }

  #tell(): void {
    if (!this.#session.isOver) this.#crossed = this.#announce();
    this.#isTold = true;
    for (const serve of this.#held.splice(0)) serve();
  }

  /** Resolves when every stream that the client began before it read the first GOAWAY has arrived. */
  async #announce(): Promise<void> {
    this.#session.announceEnd();
    await this.#hasRead(roundTripMs);
    await sleep(crossingMs);
    await nextTick();
    if (!this.#session.isOver) this.#session.onAllArrived?.();
  }

  /** A client that has ended the session itself begins no further streams: there is nothing to wait for. */
  #hasRead(forMs = patienceMs): Promise<void> {
    return patiently((done) => {
      if (this.#session.isOver) done();
      else this.#session.ping(done);
    }, forMs);
  }

  async #end(): Promise<void> {
    // Wait for the first request of a new client.
    if (this.#lastStream === 0) {
      await patiently((done) => {
        this.#onBegun = done;
      });
    }
    this.#telling ??= this.#tellWhenRead(this.#lastStream + 1, this.#openStreams);
    await this.#telling;
    await this.#crossed;
    this.#session.close();
  }
}

/** Resolves when it is done, or late. What arrived while the process was paused is read before it is late. */
function patiently(wait: (done: () => void) => void, forMs = patienceMs): Promise<void> {
  return new Promise((resolve) => {
    const late = setTimeout(() => setImmediate(resolve), forMs);
    wait(() => {
      clearTimeout(late);
      resolve();
    });
  });
}
