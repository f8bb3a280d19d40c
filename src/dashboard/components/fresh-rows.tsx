import { useSignal } from "@preact/signals";
import { counted } from "../data/format.ts";
import { Button } from "./button.tsx";

/** New rows that wait while a person reads further down. */
export interface FreshRows<T> {
  readonly waiting: readonly T[];
  /** Adds a row: to the list if its top is seen, else to those that wait. */
  add(row: T): void;
  /** Puts the waiting rows into the list. */
  show(): void;
  clear(): void;
}

/** A list whose top is scrolled away is not moved. */
const topPx = 160;
const maxWaiting = 500;

export function useFreshRows<T>(insert: (rows: readonly T[]) => void): FreshRows<T> {
  const waiting = useSignal<readonly T[]>([]);
  const show = () => {
    const rows = waiting.peek();
    waiting.value = [];
    if (rows.length > 0) insert(rows);
  };
  return {
    waiting: waiting.value,
    show,
    add(row) {
      waiting.value = [row, ...waiting.peek()].slice(0, maxWaiting);
      if (window.scrollY < topPx) show();
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
