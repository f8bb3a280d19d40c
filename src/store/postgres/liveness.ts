import type { LoopClock } from "../../base/loop-clock.ts";

/**
 * Detects a server that has stopped responding: a network that drops packets ends no connection, and each statement
 * would wait for its own timeout, one after another.
 *
 * Costs nothing while the server responds. If a statement has waited for a second without any response at all, a new
 * connection is tried; if that gets no response either, the server is silent. One slow statement is not silence: the
 * new connection gets a response.
 */
export interface Liveness {
  /** Call when a statement is sent or a connection begins. Returns a function to call when it has ended in any way. */
  begin(): () => void;
  /** Call on any response of the server. */
  answered(): void;
  /** Number of responses so far. */
  readonly answers: number;
  close(): void;
}

export interface LivenessLimits {
  /** How long everything may wait without a response before a new connection is tried. */
  readonly suspectAfterMs: number;
  /** How long the server has to respond to the new connection. */
  readonly probeWithinMs: number;
}

interface LivenessOptions extends LivenessLimits {
  readonly clock: LoopClock;
  /** Connects; rejects if the server does not respond within the time. */
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
      // A response in the meantime outweighs a failed connection.
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
        if (waiting > 0) return;
        callOff?.();
        callOff = undefined;
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
