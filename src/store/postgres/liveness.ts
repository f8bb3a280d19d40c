import type { LoopClock } from "../../base/loop-clock.ts";

/**
 * Notices a server that has stopped answering: a network that swallows packets ends no connection, and each statement
 * would wait for its own time-out, one after another.
 *
 * Costs nothing while the server answers. When something has waited for a second and nothing at all was answered
 * meanwhile, a new connection is tried; a server that does not answer that one either is silent. A single slow
 * statement is no silence: the new connection is answered.
 */
export interface Liveness {
  /** A statement was sent, or a connection begun. Returns what to call when it has ended, answered or not. */
  begin(): () => void;
  /** The server said something. */
  answered(): void;
  /** The number of answers so far. */
  readonly answers: number;
  close(): void;
}

export interface LivenessLimits {
  /** How long everything may wait without an answer before the server is suspected. */
  readonly suspectAfterMs: number;
  /** How long a suspected server has for answering a new connection. */
  readonly probeWithinMs: number;
}

interface LivenessOptions extends LivenessLimits {
  readonly clock: LoopClock;
  /** Connects, and rejects after the time given when the server has not answered at all. */
  readonly probe: (withinMs: number) => Promise<void>;
  readonly onSilence: () => void;
}

export function createLiveness({ clock, probe, onSilence, suspectAfterMs, probeWithinMs }: LivenessOptions): Liveness {
  let waiting = 0;
  let answers = 0;
  let quietSince = 0;
  let callOff: (() => void) | undefined;
  let isProbing = false;
  let isClosed = false;

  function lookAfter(ms: number): void {
    if (callOff === undefined && !isProbing && !isClosed) callOff = clock.after(ms, look);
  }

  function look(): void {
    callOff = undefined;
    if (waiting === 0) return;
    const quietMs = clock.now() - quietSince;
    if (quietMs < suspectAfterMs) lookAfter(suspectAfterMs - quietMs);
    else void suspect();
  }

  async function suspect(): Promise<void> {
    const before = answers;
    isProbing = true;
    try {
      await probe(probeWithinMs);
      answered();
    } catch {
      // Anything that was answered meanwhile says more than a connection that could not be made.
      if (answers === before && waiting > 0 && !isClosed) onSilence();
    }
    isProbing = false;
    quietSince = clock.now();
    if (waiting > 0) lookAfter(suspectAfterMs);
  }

  function answered(): void {
    answers += 1;
    quietSince = clock.now();
  }

  return {
    begin() {
      if (waiting === 0) quietSince = clock.now();
      waiting += 1;
      lookAfter(suspectAfterMs);
      return () => {
        waiting -= 1;
      };
    },
    answered,
    get answers() {
      return answers;
    },
    close() {
      isClosed = true;
      callOff?.();
    },
  };
}
