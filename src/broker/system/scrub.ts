import type { World } from "../../base/world.ts";
import { type Backend, type Entry, StoreDamaged } from "../../store/contract.ts";
import { SealKeyMissing } from "../../store/sealed/seal-key.ts";
import type { SealedStore } from "../../store/sealed/sealed.ts";

export interface ScrubProgress {
  readonly checked: number;
  readonly damaged: number;
  /** Some of the damaged entries, described for people. */
  readonly examples: readonly string[];
  readonly isDone: boolean;
}

/** Reads and checks everything; the last step has `isDone`. */
export type ScrubStore = (signal: AbortSignal) => AsyncGenerator<ScrubProgress>;

interface ScrubOptions {
  readonly store: SealedStore;
  readonly backend: Backend;
  readonly world: World;
}

/** Limits the examples to what a person reads. */
const maxExamples = 20;

export function createScrubStore({ store, backend, world }: ScrubOptions): ScrubStore {
  const { log, metrics } = world;

  /**
   * Checks that an entry decrypts. A write or a re-seal may have replaced the entry since, so a failure is read once
   * more.
   */
  async function opens(entry: Entry): Promise<boolean> {
    try {
      store.frames.open(entry);
      return true;
    } catch (error) {
      if (!isUnreadable(error)) throw error;
    }
    try {
      await store.get(entry.key);
      return true;
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      return false;
    }
  }

  return async function* (signal) {
    let checked = 0;
    let count = 0;
    const examples: string[] = [];
    const note = (what: string) => {
      count += 1;
      if (examples.length < maxExamples) examples.push(what);
      // Set at once: an alert may depend on the metric, and the caller may leave before the end.
      metrics.storeDamaged.set(count);
    };
    for await (const step of backend.scrub()) {
      for (const what of step.damaged) note(what);
      for (const entry of step.entries) if (!(await opens(entry))) note(`the value of ${JSON.stringify(entry.key)}`);
      checked += step.entries.length;
      if (signal.aborted) return;
      yield { checked, damaged: count, examples: [...examples], isDone: false };
    }
    metrics.storeDamaged.set(count);
    if (count > 0) log.error("the store is damaged", { checked, damaged: count });
    else log.info("scrubbed the store; no damage found", { checked });
    yield { checked, damaged: count, examples, isDone: true };
  };
}

const isUnreadable = (error: unknown): boolean => error instanceof StoreDamaged || error instanceof SealKeyMissing;
