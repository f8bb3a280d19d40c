import type { Store } from "../../../store/contract.ts";

/** How old memory may be when a delivery begins. Asking for each delivery costs a busy replica a read of the feed each. */
const recentMs = 100;

/** Returns the function that resolves once this process has seen everything that was committed a moment ago. */
export function createRecentCatchUp(store: Pick<Store, "caughtUp">): () => Promise<void> | undefined {
  let seenAt = Number.NEGATIVE_INFINITY;
  let running: Promise<void> | undefined;

  async function catchUp(): Promise<void> {
    const askedAt = performance.now();
    try {
      await store.caughtUp();
      seenAt = askedAt;
    } finally {
      running = undefined;
    }
  }

  return () => {
    if (performance.now() - seenAt < recentMs) return undefined;
    running ??= catchUp();
    return running;
  };
}
