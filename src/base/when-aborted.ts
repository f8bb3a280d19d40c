/**
 * Hears of a signal that many wait for, each for a moment. One listener a signal, since those that Node has taken off
 * go on naming the one that came after: once a single one is old, all that follow are kept until everything is
 * collected, and with them whatever they would have broken off.
 */
export function whenAborted(signal: AbortSignal, act: () => void): () => void {
  const waiting = waitingFor.get(signal) ?? listenTo(signal);
  const one: AbortListener = { act };
  waiting.all.add(one);
  return () => {
    one.act = undefined;
    const wasThere = waiting.all.delete(one);
    // A signal of signals that is listened to is kept for as long as those are.
    if (wasThere && waiting.all.size === 0) waiting.stop();
  };
}

interface AbortListener {
  act: (() => void) | undefined;
}

interface SignalListeners {
  readonly all: Set<AbortListener>;
  stop(): void;
}

const waitingFor = new WeakMap<AbortSignal, SignalListeners>();

function listenTo(signal: AbortSignal): SignalListeners {
  const all = new Set<AbortListener>();
  const tellAll = () => {
    for (const { act } of [...all]) tell(act);
  };
  const waiting = {
    all,
    stop() {
      signal.removeEventListener("abort", tellAll);
      waitingFor.delete(signal);
    },
  };
  signal.addEventListener("abort", tellAll, { once: true });
  waitingFor.set(signal, waiting);
  return waiting;
}

/** What one of them throws is reported as that of a listener is, and keeps none of the others from hearing. */
function tell(act: (() => void) | undefined): void {
  try {
    act?.();
  } catch (error) {
    process.nextTick(() => {
      throw error;
    });
  }
}
