/** A session with more bytes of Latchkey's own responses that wait for the client takes no new streams. */
const mostOfSession = 4 * 1024 * 1024;
/** With more for all sessions, responses that would have to wait are dropped. */
const mostOfProcess = 64 * 1024 * 1024;

/** Bytes for all sessions of the process. */
let ofProcess = 0;

/**
 * Counts the memory of Latchkey's own complete responses that wait for the client of a session. Responses of providers
 * are not counted: they wait at the provider.
 */
export class HeldResponses {
  #ofSession = 0;

  /** A negative number: that much is no longer held. */
  add(bytes: number): void {
    this.#ofSession += bytes;
    ofProcess += bytes;
  }

  /** Whether the session must take no more requests now. */
  get isFull(): boolean {
    return this.#ofSession > mostOfSession || (this.#ofSession > 0 && ofProcess > mostOfProcess);
  }

  get isOverAll(): boolean {
    return ofProcess > mostOfProcess;
  }
}
