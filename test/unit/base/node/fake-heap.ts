interface HeapOptions {
  readonly given: string | undefined;
  readonly size: () => number;
  readonly setGrowth: (growth: number) => void;
  readonly onCollection: (look: () => void) => () => void;
}

const mib = 1024 * 1024;

/** Starts what limits a heap, over a heap whose size after a collection the test sets. */
export function startOnHeap(start: (options: HeapOptions) => () => void, { given = "", sizeMib = 0 } = {}) {
  const growths: number[] = [];
  let looked: (() => void) | undefined;
  let bytes = sizeMib * mib;
  const end = start({
    given,
    size: () => bytes,
    setGrowth: (growth) => void growths.push(growth),
    onCollection(look) {
      looked = look;
      return () => {
        looked = undefined;
      };
    },
  });
  const collect = (size: number) => {
    bytes = size * mib;
    looked?.();
  };
  return { growths, collect, end };
}
