import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { type CallFault, faultOf } from "../state/fault.ts";

/** Work over many objects: how far it is, and what failed. */
export interface BulkWork<T, R> {
  readonly isRunning: boolean;
  readonly done: number;
  readonly results: readonly R[];
  readonly failures: readonly (readonly [item: T, fault: CallFault])[];
  /** Resolves when all are done, or the page was left. */
  run(items: readonly T[], work: (item: T, signal: AbortSignal) => Promise<R>): Promise<void>;
  stop(): void;
}

const atOnce = 6;

/** Runs a call for each of many objects, a few at once. One that fails does not stop the others. */
export function useEach<T, R>(): BulkWork<T, R> {
  const isRunning = useSignal(false);
  const done = useSignal(0);
  const results = useSignal<readonly R[]>([]);
  const failures = useSignal<readonly (readonly [T, CallFault])[]>([]);
  const over = useRef(new AbortController());
  useEffect(() => () => over.current.abort(), []);
  return {
    isRunning: isRunning.value,
    done: done.value,
    results: results.value,
    failures: failures.value,
    async run(items, work) {
      over.current = new AbortController();
      const { signal } = over.current;
      isRunning.value = true;
      done.value = 0;
      failures.value = [];
      const found: (R | undefined)[] = [];
      let next = 0;
      async function takeNext(): Promise<void> {
        while (next < items.length && !signal.aborted) {
          const at = next;
          next += 1;
          const item = items[at] as T;
          try {
            found[at] = await work(item, signal);
          } catch (error) {
            if (signal.aborted) return;
            failures.value = [...failures.peek(), [item, faultOf(error)]];
          }
          done.value += 1;
        }
      }
      await Promise.all(Array.from({ length: atOnce }, takeNext));
      results.value = found.filter((one): one is R => one !== undefined);
      isRunning.value = false;
    },
    stop: () => over.current.abort(),
  };
}
