import { setTimeout as sleep } from "node:timers/promises";

/** What a session must be able to do to end without losing a request. */
export interface LeavingSession {
  readonly isOver: boolean;
  readonly lastServed: number;
  hasStreamsUpTo(streamId: number): boolean;
  /** Calls back when the client has read all that was sent so far. */
  ping(done: () => void): void;
  /** Tells the client to begin no further streams; those on their way are served. */
  announceEnd(): void;
  /** Ends the session with its last stream. */
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
 * response. If a GOAWAY follows that response, Node's client cancels the request as refused, and connect-node fails. So
 * GOAWAY is sent while no data is on its way to the client: new streams are held until all earlier ones have ended and
 * a PING came back, and are served after the GOAWAY.
 */
export class SessionGoaway {
  readonly #session: LeavingSession;
  readonly #held: (() => void)[] = [];
  #hasBegun = false;
  #isLeaving = false;
  #telling: Promise<void> | undefined;
  #isTold = false;
  /** Set with the first GOAWAY. */
  #crossed: Promise<void> | undefined;
  #onBegun: (() => void) | undefined;
  #onClosed: (() => void) | undefined;

  constructor(session: LeavingSession) {
    this.#session = session;
  }

  /** Whether streams have to pass through `begin`. */
  get isUnderWay(): boolean {
    return this.#isLeaving;
  }

  noteBegun(): void {
    this.#hasBegun = true;
    this.#onBegun?.();
  }

  noteClosed(): void {
    this.#onClosed?.();
  }

  /** Serves a stream of a session that is left: at once, or after a short hold. */
  begin(serve: () => void): void {
    this.#telling ??= this.#tellWhenRead();
    if (this.#isTold) serve();
    else this.#held.push(serve);
  }

  /** Sends GOAWAY to the client with its next stream, and keeps serving. */
  leave(): void {
    this.#isLeaving = true;
  }

  /** Sends GOAWAY to the client now; the session ends when its streams have ended. */
  drain(): void {
    this.#isLeaving = true;
    void this.#end();
  }

  async #tellWhenRead(): Promise<void> {
    // The stream that causes this is held and has the highest number.
    const last = this.#session.lastServed - 1;
    await patiently((done) => {
      const look = () => {
        if (!this.#session.hasStreamsUpTo(last)) done();
      };
      this.#onClosed = look;
      look();
    });
    this.#onClosed = undefined;
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
  }

  #hasRead(forMs = patienceMs): Promise<void> {
    return patiently((done) => {
      if (this.#session.isOver) done();
      else this.#session.ping(done);
    }, forMs);
  }

  async #end(): Promise<void> {
    // Wait for the first request of a new client.
    if (!this.#hasBegun) {
      await patiently((done) => {
        this.#onBegun = done;
      });
    }
    this.#telling ??= Promise.resolve(this.#tell());
    await this.#telling;
    await this.#crossed;
    this.#session.close();
  }
}

function patiently(wait: (done: () => void) => void, forMs = patienceMs): Promise<void> {
  return new Promise((resolve) => {
    const late = setTimeout(resolve, forMs);
    wait(() => {
      clearTimeout(late);
      resolve();
    });
  });
}
