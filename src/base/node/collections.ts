import { constants, type NodeGCPerformanceDetail, PerformanceObserver } from "node:perf_hooks";

/** Calls back after collections of garbage, until the returned function is called. */
export type OnCollection = (look: () => void) => () => void;

/** After each collection. */
export const onCollection: OnCollection = (look) => observe(look, () => true);

/** After each collection of everything. */
export const onFullCollection: OnCollection = (look) => observe(look, isFull);

function observe(look: () => void, counts: (entry: object) => boolean): () => void {
  const observer = new PerformanceObserver((seen) => {
    if (seen.getEntries().some(counts)) look();
  });
  observer.observe({ entryTypes: ["gc"] });
  return () => observer.disconnect();
}

const isFull = (entry: object): boolean =>
  "detail" in entry && (entry.detail as NodeGCPerformanceDetail).kind === constants.NODE_PERFORMANCE_GC_MAJOR;
