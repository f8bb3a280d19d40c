import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { counted } from "../data/format.ts";
import type { Pager } from "../data/pager.ts";
import { Button } from "./button.tsx";

/** New rows that wait while a person reads further down. */
export interface FreshRows<T> {
  readonly waiting: readonly T[];
  /** Adds a row: to the list if its top is seen, else to those that wait. */
  add(row: T): void;
  /** Adds what happened before a live view began, or while it was paused. */
  catchUp(read: () => Promise<{ readonly items: readonly T[] }>): Promise<void>;
  /** Puts the waiting rows into the list. */
  show(): void;
  clear(): void;
}

/** A list whose top is scrolled away is not moved. */
const topPx = 160;
const maxWaiting = 500;

export function useFreshRows<T extends { readonly id: string }>(pager: Pager<T>): FreshRows<T> {
  const waiting = useSignal<readonly T[]>([]);
  const list = useRef(pager);
  list.current = pager;
  const isKnown = (row: T) => [...(list.current.items ?? []), ...waiting.peek()].some(({ id }) => id === row.id);

  function show(): void {
    const rows = waiting.peek();
    waiting.value = [];
    if (rows.length === 0) return;
    list.current.edit((all) => [...rows.filter(({ id }) => !all.some((one) => one.id === id)), ...all]);
  }
  function add(row: T): void {
    if (isKnown(row)) return;
    waiting.value = [row, ...waiting.peek()].slice(0, maxWaiting);
    if (window.scrollY < topPx) show();
  }
  return {
    waiting: waiting.value,
    show,
    add,
    async catchUp(read) {
      // The list itself is on its way, and has everything.
      if (list.current.items === undefined) return;
      const { items } = await read();
      for (const row of items.toReversed()) add(row);
    },
    clear() {
      waiting.value = [];
    },
  };
}

export const FreshRowsButton = <T,>({ rows, what }: { readonly rows: FreshRows<T>; readonly what: string }) =>
  rows.waiting.length === 0 ? null : (
    <p class="fresh-rows">
      <Button
        isSmall
        onClick={() => {
          rows.show();
          window.scrollTo(0, 0);
        }}
      >
        Show {counted(rows.waiting.length, `new ${what}`)}
      </Button>
    </p>
  );
