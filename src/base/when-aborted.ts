/**
 * Hears of a signal that many wait for, each for a moment. One listener a signal, since those that Node has taken off
 * go on naming the one that came after: once a single one is old, all that follow are kept until everything is
 * collected, and with them whatever they would have broken off.
 */
export function whenAborted(signal: AbortSignal, act: () => void): () => void {
  const acts = waiting.get(signal) ?? listenTo(signal);
  const one: Waiting = { act };
  acts.add(one);
  return () => {
    one.act = undefined;
    acts.delete(one);
  };
}

interface Waiting {
  act: (() => void) | undefined;
}

const waiting = new WeakMap<AbortSignal, Set<Waiting>>();

function listenTo(signal: AbortSignal): Set<Waiting> {
  const acts = new Set<Waiting>();
  waiting.set(signal, acts);
  const tellAll = () => {
    for (const { act } of [...acts]) act?.();
  };
  signal.addEventListener("abort", tellAll, { once: true });
  return acts;
}
