import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

/** A form's values that survive a reload of the page. Never pass secrets: the values are kept in the tab's storage. */
export interface Draft<T> {
  readonly value: Signal<T>;
  /** Whether the values are those of an earlier visit. */
  readonly isRestored: boolean;
  /** Forgets the values, after they are saved or dropped. */
  forget(): void;
}

const prefix = "latchkey-draft:";

export function useDraft<T>(name: string, initial: T): Draft<T> {
  const key = `${prefix}${name}`;
  const stored = useSignal<T | undefined>(undefined);
  const isRead = useSignal(false);
  if (!isRead.peek()) {
    isRead.value = true;
    stored.value = read<T>(key);
  }
  const value = useSignal<T>(stored.peek() ?? initial);
  const isForgotten = useSignal(false);
  useEffect(() => {
    if (isForgotten.peek()) return;
    if (JSON.stringify(value.value) === JSON.stringify(initial)) window.sessionStorage.removeItem(key);
    else window.sessionStorage.setItem(key, JSON.stringify(value.value));
  }, [value.value]);
  return {
    value,
    isRestored: stored.value !== undefined,
    forget() {
      isForgotten.value = true;
      window.sessionStorage.removeItem(key);
    },
  };
}

function read<T>(key: string): T | undefined {
  try {
    const text = window.sessionStorage.getItem(key);
    return text === null ? undefined : (JSON.parse(text) as T);
  } catch {
    /* Not JSON: another version wrote it. */
    return undefined;
  }
}
