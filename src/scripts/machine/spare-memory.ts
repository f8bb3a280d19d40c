/** The used part of the WebAssembly API, which Node's types alone do not declare. */
declare namespace WebAssembly {
  class Memory {
    constructor(size: { initial: number; maximum: number });
    readonly buffer: ArrayBuffer;
    grow(pages: number): number;
  }
}

export interface MachineMemory {
  readonly memory: WebAssembly.Memory;
  /** The latest request for more memory was refused. */
  wasRefused(): boolean;
  forgetRefusal(): void;
  /** Ends the use of the memory. Returns whether more of it was used than its initial size. */
  release(): boolean;
}

/**
 * Wiped memories of finished machines, for reuse. V8 counts 16 MiB for each new memory, however little is used, and so
 * runs a full collection after every fourth: that cost as much as the runs. Scripts that use all available memory, one
 * after another, would each have 64 MiB mapped, marked and unmapped by V8's helper threads, which have the same
 * priority as the proxy's thread.
 */
export interface SpareMemories {
  /** Returns a memory of zeros. */
  take(size: MemorySize): MachineMemory;
}

export interface MemorySize {
  readonly pages: number;
  readonly maxPages: number;
  /** The memory may start with more pages than requested. */
  readonly mayBeLarger: boolean;
}

export const pageBytes = 65_536;
/** Number of memories kept; the used part of each stays allocated: a few MiB. */
const maxSpare = 4;
/** A grown memory may stay allocated as a whole. Scripts that need so much run one after another. */
const maxGrown = 1;
/** Unused memories are freed after this time. */
const unusedMs = 30_000;

const zeros = Buffer.alloc(pageBytes);
const { grow } = WebAssembly.Memory.prototype;

interface Spare {
  readonly memory: WebAssembly.Memory;
  readonly pages: number;
  readonly maxPages: number;
  readonly hasGrown: boolean;
  readonly rest: NodeJS.Timeout;
}

export function createSpareMemories(): SpareMemories {
  let spare: Spare[] = [];

  function drop(one: Spare): void {
    clearTimeout(one.rest);
    spare = spare.filter((other) => other !== one);
  }

  function taken({ pages, maxPages, mayBeLarger }: MemorySize): WebAssembly.Memory {
    const fitting = spare.filter((one) => one.maxPages === maxPages);
    const larger = mayBeLarger ? fitting.find((one) => one.pages > pages) : undefined;
    const found = larger ?? fitting.find((one) => one.pages === pages);
    if (found === undefined) return new WebAssembly.Memory({ initial: pages, maximum: maxPages });
    drop(found);
    return found.memory;
  }

  function keep(memory: WebAssembly.Memory, { pages: atFirst, maxPages }: MemorySize): boolean {
    // A memory that has grown cannot shrink.
    const pages = memory.buffer.byteLength / pageBytes;
    const hasGrown = pages > atFirst;
    if (hasGrown && spare.filter((one) => one.hasGrown).length >= maxGrown) return true;
    const used = wipe(memory.buffer);
    const rest = setTimeout(() => drop(kept), unusedMs).unref();
    const kept: Spare = { memory, pages, maxPages, hasGrown, rest };
    spare = [kept, ...spare];
    for (const oldest of spare.slice(maxSpare)) drop(oldest);
    return used > atFirst;
  }

  return {
    take(size) {
      const memory = taken(size);
      let isGivenBack = false;
      let isRefused = false;
      // The module grows its memory through this method. The size alone does not tell, since a memory may be large from
      // the start.
      memory.grow = (pages) => {
        isRefused = true;
        const before = grow.call(memory, pages);
        isRefused = false;
        return before;
      };
      return {
        memory,
        wasRefused: () => isRefused,
        forgetRefusal() {
          isRefused = false;
        },
        release() {
          if (isGivenBack) return false;
          isGivenBack = true;
          return keep(memory, size);
        },
      };
    },
  };
}

/**
 * Clears every page that has data; untouched pages are only read, and stay unallocated. Returns the number of pages up
 * to the last with data.
 */
function wipe(buffer: ArrayBuffer): number {
  const all = Buffer.from(buffer);
  let used = 0;
  for (let at = 0; at < all.length; at += pageBytes) {
    const end = at + pageBytes;
    if (all.compare(zeros, 0, pageBytes, at, end) === 0) continue;
    all.fill(0, at, end);
    used = end / pageBytes;
  }
  return used;
}
