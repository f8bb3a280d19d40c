/** Limits the tasks of each kind that run at a time; others wait in order. Resolves to a function that frees the slot. */
export type Limiter = (kind: string) => Promise<() => void>;

interface LimiterQueue {
  busy: number;
  readonly waiting: (() => void)[];
}

export function createLimiter(most: number): Limiter {
  const rows = new Map<string, LimiterQueue>();
  return async (kind) => {
    const row = rows.get(kind) ?? { busy: 0, waiting: [] };
    rows.set(kind, row);
    if (row.busy === most) await new Promise<void>((resolve) => row.waiting.push(resolve));
    else row.busy += 1;
    let isBack = false;
    return () => {
      if (isBack) return;
      isBack = true;
      // Give the slot directly to the next waiter, so that a newcomer cannot overtake.
      const next = row.waiting.shift();
      if (next !== undefined) next();
      else row.busy -= 1;
      if (row.busy === 0) rows.delete(kind);
    };
  };
}
