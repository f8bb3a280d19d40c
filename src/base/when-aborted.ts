/**
 * Listens to a signal for many short waits. Uses one listener per signal, since in Node a removed listener still refers
 * to the next one: once a removed listener is in the old generation, all later ones are kept until a full collection,
 * together with everything they refer to.
 */
export function whenAborted(signal: AbortSignal, act: () => void): () => void {
  const waiting = waitingFor.get(signal) ?? listenTo(signal);
  const one: AbortListener = { act };
  waiting.all.add(one);
  return () => {
    one.act = undefined;
    const wasThere = waiting.all.delete(one);
    // A combined signal with a listener is kept as long as its sources.
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

/** An error of one callback is reported like that of a listener, and does not stop the others. */
function tell(act: (() => void) | undefined): void {
  try {
    act?.();
  } catch (error) {
    process.nextTick(() => {
      throw error;
    });
  }
}
