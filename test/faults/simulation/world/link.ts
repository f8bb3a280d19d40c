import type { SimulatedProcess, SimulatedTime } from "./time.ts";

export type LinkState = "up" | "frozen" | "deaf" | "mute" | "cut";

interface LinkOptions {
  readonly time: SimulatedTime;
  readonly random: () => number;
  readonly count: (effect: string, times?: number) => void;
  readonly name: string;
}

interface Ends {
  /** The connection broke. */
  onBroken(): void;
}

/**
 * The network between two places. Frozen, it keeps what is sent until it thaws; `deaf` and `mute` freeze one direction,
 * as seen from the client. Cut, it breaks connections and refuses new ones.
 */
export class Link {
  readonly name: string;
  state: LinkState = "up";
  /** When the state began. */
  since = 0;
  delayMs = 1;
  /** Called once, right before a commit is sent over it. */
  beforeCommit: (() => void) | undefined;
  readonly #time: SimulatedTime;
  readonly #random: () => number;
  readonly #count: LinkOptions["count"];
  readonly #held: { readonly isToServer: boolean; readonly send: () => void }[] = [];
  readonly #open = new Set<Ends>();

  constructor({ time, random, count, name }: LinkOptions) {
    this.#time = time;
    this.#random = random;
    this.#count = count;
    this.name = name;
  }

  /** Returns functions that send over one connection of this link, in order. */
  open(ends: Ends) {
    this.#open.add(ends);
    const lastAt = [0, 0];
    const send = (isToServer: boolean, deliver: () => void, to: SimulatedProcess | undefined) => {
      const transmit = () => {
        const side = isToServer ? 1 : 0;
        const at = Math.max(lastAt[side] ?? 0, this.#time.now + this.delayMs * (0.5 + this.#random()));
        lastAt[side] = at;
        this.#time.afterIn(to, at - this.#time.now, deliver);
      };
      if (this.state === "cut") return;
      if (this.#isHeld(isToServer)) {
        this.#count("messages held by links");
        this.#held.push({ isToServer, send: transmit });
      } else transmit();
    };
    return {
      toServer: (deliver: () => void, to: SimulatedProcess | undefined) => send(true, deliver, to),
      toClient: (deliver: () => void, to: SimulatedProcess | undefined) => send(false, deliver, to),
      close: () => void this.#open.delete(ends),
    };
  }

  set(state: LinkState): void {
    this.state = state;
    this.since = this.#time.now;
    if (state === "cut") {
      this.#held.length = 0;
      this.#count("connections broken by links", this.#open.size);
      for (const ends of [...this.#open]) ends.onBroken();
      this.#open.clear();
      return;
    }
    for (const held of this.#held.splice(0)) {
      if (this.#isHeld(held.isToServer)) this.#held.push(held);
      else held.send();
    }
  }

  get connections(): number {
    return this.#open.size;
  }

  #isHeld(isToServer: boolean): boolean {
    return this.state === "frozen" || this.state === (isToServer ? "mute" : "deaf");
  }
}
