import { useSignal } from "@preact/signals";
import { useCallback, useEffect, useRef } from "preact/hooks";
import { type CallFault, faultOf } from "../state/fault.ts";
import type { ReadPage } from "./pager.ts";

/** A long list of which only the pages near the screen are in memory; the others are read again when needed. */
export interface RowWindow<T> {
  /** Number of rows found so far, in memory or not; undefined before the first answer. */
  readonly count: number | undefined;
  readonly isEnd: boolean;
  readonly isLoading: boolean;
  readonly fault: CallFault | undefined;
  /** Returns undefined while a row is read again. */
  at(index: number): T | undefined;
  /** Reads the pages of these rows, and forgets pages far away. */
  show(from: number, to: number): void;
  /** Changes rows in memory, such as after an event of a watch. Rows keep their places. */
  edit(change: (row: T) => T): void;
  reload(): void;
}

interface WindowPage<T> {
  readonly token: string;
  readonly start: number;
  count: number;
  next: string;
  items: readonly T[] | undefined;
}

/** Pages kept before and behind those on the screen. */
const keptPages = 3;
/** Rows before the end at which the next page is read. */
const ahead = 60;

/** Begins again whenever a dependency changes; the rows before stay until the first answer. */
export function useRowWindow<T>(read: ReadPage<T>, dependencies: readonly unknown[]): RowWindow<T> {
  /** Counts changes of the pages, which are not signals: there may be ten thousand. */
  const version = useSignal(0);
  const fault = useSignal<CallFault | undefined>(undefined);
  const isLoading = useSignal(true);
  const round = useSignal(0);
  /** The pages on the screen; undefined before the first answer. */
  const pages = useRef<WindowPage<T>[] | undefined>(undefined);
  /** The pages that are read: those on the screen from their first answer on. */
  const filled = useRef<WindowPage<T>[]>([]);
  const filling = useRef<AbortSignal | undefined>(undefined);
  const shown = useRef<readonly [from: number, to: number]>([0, 0]);
  const over = useRef(new AbortController());
  const reader = useRef(read);
  reader.current = read;

  const fill = useCallback(async () => {
    const { signal } = over.current;
    if (filling.current === signal) return;
    filling.current = signal;
    isLoading.value = true;
    const list = filled.current;
    try {
      for (let page = missing(list, shown.current); page !== undefined; page = missing(list, shown.current)) {
        const { items, nextPageToken } = await reader.current(page.token, signal);
        if (signal.aborted) return;
        page.items = items;
        page.next = nextPageToken;
        // A page that is read again keeps its length, so that the rows behind it keep their places.
        if (list.at(-1) === page) page.count = items.length;
        pages.current = list;
        fault.value = undefined;
        forgetFar(list, shown.current);
        version.value += 1;
      }
    } catch (error) {
      if (!signal.aborted) fault.value = faultOf(error);
    } finally {
      if (filling.current === signal) filling.current = undefined;
      if (!signal.aborted) isLoading.value = false;
    }
  }, []);

  useEffect(() => {
    over.current = new AbortController();
    filled.current = [];
    void fill();
    return () => over.current.abort();
  }, [...dependencies, round.value]);

  // Reading the version makes the component follow changes of the pages.
  const current = version.value === 0 ? [] : (pages.current ?? []);
  const last = current.at(-1);
  return {
    count: last === undefined ? undefined : last.start + last.count,
    isEnd: last?.items !== undefined && last.next === "",
    isLoading: isLoading.value,
    fault: fault.value,
    at(index) {
      const page = pageAt(current, index);
      return page?.items?.[index - page.start];
    },
    show(from, to) {
      shown.current = [from, to];
      void fill();
    },
    edit(change) {
      for (const page of current) if (page.items !== undefined) page.items = page.items.map(change);
      version.value += 1;
    },
    reload() {
      round.value += 1;
    },
  };
}

function pageAt<T>(pages: readonly WindowPage<T>[], index: number): WindowPage<T> | undefined {
  let [low, high] = [0, pages.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((pages[middle]?.start ?? 0) <= index) low = middle + 1;
    else high = middle;
  }
  return pages[low - 1];
}

/** Returns the page to read next: one on the screen that was forgotten, or the one behind the end. */
function missing<T>(
  pages: WindowPage<T>[],
  [from, to]: readonly [from: number, to: number],
): WindowPage<T> | undefined {
  const last = pages.at(-1);
  if (last === undefined) {
    pages.push({ token: "", start: 0, count: 0, next: "", items: undefined });
    return pages[0];
  }
  const gone = pages.find(
    ({ items, start, count }) => items === undefined && start < to + ahead && start + count >= from,
  );
  if (gone !== undefined) return gone;
  const end = last.start + last.count;
  if (last.items === undefined || last.next === "" || end >= to + ahead) return undefined;
  const next: WindowPage<T> = { token: last.next, start: end, count: 0, next: "", items: undefined };
  pages.push(next);
  return next;
}

function forgetFar<T>(pages: readonly WindowPage<T>[], [from, to]: readonly [from: number, to: number]): void {
  const [first, last] = [pageAt(pages, from), pageAt(pages, to)].map((page) => (page ? pages.indexOf(page) : 0));
  for (const [i, page] of pages.entries()) {
    const isNear = i >= (first ?? 0) - keptPages && i <= (last ?? 0) + keptPages;
    // The newest page stays: its token leads on.
    if (!isNear && i < pages.length - 1) page.items = undefined;
  }
}
