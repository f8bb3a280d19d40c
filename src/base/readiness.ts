/** Readiness of the process, for probes and load balancers. */
export type Phase = "starting" | "ready" | "draining";

export interface Readiness {
  readonly phase: () => Phase;
  set(phase: Phase): void;
  /** Calls back on every change; returns a function that ends the subscription. */
  watch(onChange: (phase: Phase) => void): () => void;
}

export function createReadiness(onSet: (phase: Phase) => void): Readiness {
  let phase: Phase = "starting";
  const watchers = new Set<(phase: Phase) => void>();
  return {
    phase: () => phase,
    set(next) {
      if (next === phase) return;
      phase = next;
      onSet(next);
      for (const watcher of [...watchers]) watcher(next);
    },
    watch(onChange) {
      watchers.add(onChange);
      return () => void watchers.delete(onChange);
    },
  };
}
