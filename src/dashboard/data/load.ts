import { type Signal, useSignal } from "@preact/signals";
import { useCallback, useEffect } from "preact/hooks";
import { type CallFault, faultOf } from "../state/fault.ts";

/** What a page knows of something that it asked for. A new answer replaces the old one in place, without a flash. */
export interface Loaded<T> {
  readonly value: T | undefined;
  readonly fault: CallFault | undefined;
  /** True once an answer has taken so long that the page should say so. */
  readonly isSlow: boolean;
  reload(): void;
}

const slowMs = 150;

/**
 * Calls at the first showing and whenever a dependency changes. The call gets a signal that ends with the page or with
 * the next call.
 */
export function useLoad<T>(call: (signal: AbortSignal) => Promise<T>, dependencies: readonly unknown[]): Loaded<T> {
  const value = useSignal<T | undefined>(undefined);
  const fault = useSignal<CallFault | undefined>(undefined);
  const isSlow = useSignal(false);
  const round = useSignal(0);
  useEffect(() => {
    const over = new AbortController();
    const timer = setTimeout(() => {
      isSlow.value = true;
    }, slowMs);
    void settle(call, over.signal, value, fault).finally(() => {
      clearTimeout(timer);
      if (!over.signal.aborted) isSlow.value = false;
    });
    return () => {
      clearTimeout(timer);
      over.abort();
    };
  }, [...dependencies, round.value]);
  const reload = useCallback(() => {
    round.value += 1;
  }, []);
  return { value: value.value, fault: fault.value, isSlow: isSlow.value, reload };
}

async function settle<T>(
  call: (signal: AbortSignal) => Promise<T>,
  over: AbortSignal,
  value: Signal<T | undefined>,
  fault: Signal<CallFault | undefined>,
): Promise<void> {
  try {
    const answer = await call(over);
    if (over.aborted) return;
    value.value = answer;
    fault.value = undefined;
  } catch (error) {
    if (!over.aborted) fault.value = faultOf(error);
  }
}
