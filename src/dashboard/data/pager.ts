import { useSignal } from "@preact/signals";
import { useCallback, useEffect, useRef } from "preact/hooks";
import { type CallFault, faultOf } from "../state/fault.ts";

export interface ListPage<T> {
  readonly items: readonly T[];
  /** Empty on the last page. */
  readonly nextPageToken: string;
}

/** A list that is read page by page. */
export interface Pager<T> {
  /** Undefined until the first page is here. */
  readonly items: readonly T[] | undefined;
  readonly hasMore: boolean;
  readonly isLoading: boolean;
  readonly fault: CallFault | undefined;
  more(): void;
  reload(): void;
  /** Changes the items in place, such as after an event of a watch. */
  edit(change: (items: readonly T[]) => readonly T[]): void;
}

export type ReadPage<T> = (pageToken: string, signal: AbortSignal) => Promise<ListPage<T>>;

/** Reads the first page at the first showing and whenever a dependency changes; the next ones when asked. */
export function usePager<T>(read: ReadPage<T>, dependencies: readonly unknown[]): Pager<T> {
  const items = useSignal<readonly T[] | undefined>(undefined);
  const next = useSignal("");
  const isLoading = useSignal(true);
  const fault = useSignal<CallFault | undefined>(undefined);
  const round = useSignal(0);
  const over = useRef(new AbortController());
  const reader = useRef(read);
  reader.current = read;

  const take = useCallback(async (pageToken: string) => {
    const { signal } = over.current;
    isLoading.value = true;
    try {
      const page = await reader.current(pageToken, signal);
      if (signal.aborted) return;
      items.value = pageToken === "" ? page.items : [...(items.peek() ?? []), ...page.items];
      next.value = page.nextPageToken;
      fault.value = undefined;
    } catch (error) {
      if (!signal.aborted) fault.value = faultOf(error);
    } finally {
      if (!signal.aborted) isLoading.value = false;
    }
  }, []);

  useEffect(() => {
    over.current = new AbortController();
    void take("");
    return () => over.current.abort();
  }, [...dependencies, round.value]);

  return {
    items: items.value,
    hasMore: next.value !== "",
    isLoading: isLoading.value,
    fault: fault.value,
    more() {
      if (!isLoading.peek() && next.peek() !== "") void take(next.peek());
    },
    reload() {
      round.value += 1;
    },
    edit(change) {
      if (items.peek() !== undefined) items.value = change(items.peek() ?? []);
    },
  };
}
