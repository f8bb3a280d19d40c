type Event = "data" | "end" | "close" | "error" | "drain" | symbol;
type Listener = (given?: unknown) => void;

interface StreamListener {
  readonly event: Event;
  readonly listener: Listener;
  readonly isOnce: boolean;
}

/** The listeners of a request and of its response: one or two, for which Node's emitter is too large. */
export class StreamEvents {
  #all: readonly StreamListener[] = none;

  add(event: Event, listener: Listener): void {
    this.#all = [...this.#all, { event, listener, isOnce: false }];
  }

  addOnce(event: Event, listener: Listener): void {
    this.#all = [...this.#all, { event, listener, isOnce: true }];
  }

  remove(event: Event, listener: Listener): void {
    this.#all = this.#all.filter((one) => one.event !== event || one.listener !== listener);
  }

  /** Returns whether there was a listener. */
  emit(event: Event, given?: unknown): boolean {
    let wasHeard = false;
    for (const one of this.#all) {
      if (one.event !== event) continue;
      if (one.isOnce) this.#all = this.#all.filter((other) => other !== one);
      wasHeard = true;
      one.listener(given);
    }
    return wasHeard;
  }
}

const none: readonly StreamListener[] = [];
