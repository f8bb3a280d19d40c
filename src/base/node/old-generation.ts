import { execArgv } from "node:process";
import v8 from "node:v8";
import { type OnCollection, onFullCollection } from "./collections.ts";

export interface OldGenerationOptions {
  /** The process's `NODE_OPTIONS`: an operator who names the growth has decided. */
  readonly given?: string | undefined;
  /** Memory in use after a collection of everything. */
  readonly size?: () => number;
  readonly setGrowth?: (percent: number) => void;
  readonly onCollection?: OnCollection;
}

/** A larger heap grows as V8 sees fit: four times its size would be too much memory. */
const mostBytes = 64 * 1024 * 1024;
/** In percent. V8 itself lets a heap grow to four times its size at most. */
const mostGrowth = 300;
/** V8 decides by the speed of allocations. */
const byV8 = 0;

/**
 * Lets a small heap grow as much as V8 allows before V8 collects all of it. With few allocations V8 does so after 8 MB:
 * under 2,000 webhooks a second each 2.5 seconds, for 7 to 16 ms each time. V8 reads the percentage when a collection
 * ends. Returns the function that ends it.
 */
export function letSmallHeapGrow(options: OldGenerationOptions = {}): () => void {
  const { given = "", size = usedBytes, setGrowth = setGrowingPercent, onCollection = onFullCollection } = options;
  if ([...execArgv, given].some((one) => /heap[-_]growing/.test(one))) return () => {};
  let growth = byV8;

  function look(): void {
    const wanted = size() > mostBytes ? byV8 : mostGrowth;
    if (wanted === growth) return;
    growth = wanted;
    setGrowth(wanted);
  }

  look();
  const end = onCollection(look);
  return () => {
    end();
    if (growth !== byV8) setGrowth(byV8);
  };
}

const usedBytes = (): number => v8.getHeapStatistics().used_heap_size;

const setGrowingPercent = (percent: number): void => v8.setFlagsFromString(`--heap-growing-percent=${percent}`);
