import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

/** A form's values that survive a reload of the page. Never pass secrets: the values are kept in the tab's storage. */
export interface Draft<T> {
  readonly value: Signal<T>;
  /** Whether the values are those of an earlier visit. */
  readonly isRestored: boolean;
  /** Forgets the values, after they are saved or dropped. */
  forget(): void;
}

const prefix = "latchkey-draft:";

/** `isUntouched` says that there is nothing to keep. */
export function useDraft<T>(
  name: string,
  initial: T,
  isUntouched: (value: T) => boolean = isSameAs(initial),
): Draft<T> {
  const key = `${prefix}${name}`;
  const stored = useSignal<T | undefined>(undefined);
  const isRead = useSignal(false);
  if (!isRead.peek()) {
    isRead.value = true;
    const found = read<T>(key);
    stored.value = found === undefined || isUntouched(found) ? undefined : found;
  }
  const value = useSignal<T>(stored.peek() ?? initial);
  const isForgotten = useSignal(false);
  const check = useRef(isUntouched);
  check.current = isUntouched;
  // Kept at each change, not after the next painting: the page may be left before.
  useEffect(
    () =>
      value.subscribe((now) => {
        if (isForgotten.peek()) return;
        if (check.current(now)) window.sessionStorage.removeItem(key);
        else window.sessionStorage.setItem(key, JSON.stringify(now));
      }),
    [key],
  );
  return {
    value,
    isRestored: stored.value !== undefined,
    forget() {
      isForgotten.value = true;
      window.sessionStorage.removeItem(key);
    },
  };
}

const isSameAs =
  (initial: unknown) =>
  (value: unknown): boolean =>
    JSON.stringify(value) === JSON.stringify(initial);

function read<T>(key: string): T | undefined {
  try {
    const text = window.sessionStorage.getItem(key);
    return text === null ? undefined : (JSON.parse(text) as T);
  } catch {
    /* Not JSON: another version wrote it. */
    return undefined;
  }
}
