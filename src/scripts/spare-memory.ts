/** As much of what every engine has as is used here; the types of Node alone do not say it. */
declare namespace WebAssembly {
  class Memory {
    constructor(size: { initial: number; maximum: number });
    readonly buffer: ArrayBuffer;
    grow(pages: number): number;
  }
}

export interface MachineMemory {
  readonly memory: WebAssembly.Memory;
  /** The last time that more was asked for, there was none. */
  wasRefused(): boolean;
  forgetRefusal(): void;
  /** Nobody uses it any more. Says whether more of it was used than it was to begin with. */
  release(): boolean;
}

/**
 * Memories of machines that are gone, wiped, for those to come. A new one for each run has V8 collect everything after
 * every fourth, since it counts 16 MiB for each, however little of it is used: that was as much work as the runs. And
 * of scripts that take all they can get, one after another, each would have had 64 MiB mapped, marked and unmapped by
 * V8's helpers, which have the priority of the proxy's thread.
 */
export interface SpareMemories {
  /** All zeros. */
  take(size: MemorySize): MachineMemory;
}

export interface MemorySize {
  readonly pages: number;
  readonly mostPages: number;
  /** It may have more pages than asked for from the beginning. */
  readonly mayBeLarger: boolean;
}

export const pageBytes = 65_536;
/** What has been used of each stays this process's: some MiB. */
const mostSpare = 4;
/** Of one that has grown it may be all of it. Scripts that need so much need it one after another. */
const mostGrown = 1;
/** Unused for as long they are let go of. */
const restMs = 30_000;

const zeros = Buffer.alloc(pageBytes);
const { grow } = WebAssembly.Memory.prototype;

interface Spare {
  readonly memory: WebAssembly.Memory;
  readonly pages: number;
  readonly mostPages: number;
  readonly hasGrown: boolean;
  readonly rest: NodeJS.Timeout;
}

export function createSpareMemories(): SpareMemories {
  let spare: Spare[] = [];

  function drop(one: Spare): void {
    clearTimeout(one.rest);
    spare = spare.filter((other) => other !== one);
  }

  function taken({ pages, mostPages, mayBeLarger }: MemorySize): WebAssembly.Memory {
    const fitting = spare.filter((one) => one.mostPages === mostPages);
    const larger = mayBeLarger ? fitting.find((one) => one.pages > pages) : undefined;
    const found = larger ?? fitting.find((one) => one.pages === pages);
    if (found === undefined) return new WebAssembly.Memory({ initial: pages, maximum: mostPages });
    drop(found);
    return found.memory;
  }

  function keep(memory: WebAssembly.Memory, { pages: atFirst, mostPages }: MemorySize): boolean {
    // One that has grown cannot shrink.
    const pages = memory.buffer.byteLength / pageBytes;
    const hasGrown = pages > atFirst;
    if (hasGrown && spare.filter((one) => one.hasGrown).length >= mostGrown) return true;
    const used = wipe(memory.buffer);
    const rest = setTimeout(() => drop(kept), restMs).unref();
    const kept: Spare = { memory, pages, mostPages, hasGrown, rest };
    spare = [kept, ...spare];
    for (const oldest of spare.slice(mostSpare)) drop(oldest);
    return used > atFirst;
  }

  return {
    take(size) {
      const memory = taken(size);
      let isGivenBack = false;
      let isRefused = false;
      // The module grows it through this; how large it is says nothing, since it may have been so from the beginning.
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
 * All of it, wherever something may have been written; what has never been touched is read, and stays untouched. Says
 * how many pages there are up to the last that held anything.
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
