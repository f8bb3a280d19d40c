/** So many at a time of each kind; the others wait in a row. Resolves to what gives the turn back. */
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
      // The turn goes straight to the next: whoever comes in between does not overtake.
      const next = row.waiting.shift();
      if (next !== undefined) next();
      else row.busy -= 1;
      if (row.busy === 0) rows.delete(kind);
    };
  };
}
