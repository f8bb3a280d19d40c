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
  /** Nobody uses it any more. */
  release(): void;
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
}

export function createSpareMemories(): SpareMemories {
  let spare: Spare[] = [];
  let rest: NodeJS.Timeout | undefined;

  function taken({ pages, mostPages, mayBeLarger }: MemorySize): WebAssembly.Memory {
    const fitting = spare.filter((one) => one.mostPages === mostPages);
    const found =
      fitting.find((one) => one.pages === pages) ??
      (mayBeLarger ? fitting.find((one) => one.pages > pages) : undefined);
    if (found === undefined) return new WebAssembly.Memory({ initial: pages, maximum: mostPages });
    spare = spare.filter((one) => one !== found);
    return found.memory;
  }

  function keep(memory: WebAssembly.Memory, { pages: atFirst, mostPages }: MemorySize): void {
    // One that has grown cannot shrink.
    const pages = memory.buffer.byteLength / pageBytes;
    const hasGrown = pages > atFirst;
    if (hasGrown && spare.filter((one) => one.hasGrown).length >= mostGrown) return;
    wipe(memory.buffer);
    spare = [{ memory, pages, mostPages, hasGrown }, ...spare].slice(0, mostSpare);
    clearTimeout(rest);
    rest = setTimeout(() => {
      spare = [];
    }, restMs).unref();
  }

  return {
    take(size) {
      let memory: WebAssembly.Memory | undefined = taken(size);
      const own = memory;
      let isRefused = false;
      // The module grows it through this; how large it is says nothing, since it may have been so from the beginning.
      own.grow = (pages) => {
        isRefused = true;
        const before = grow.call(own, pages);
        isRefused = false;
        return before;
      };
      return {
        memory: own,
        wasRefused: () => isRefused,
        release() {
          if (memory !== undefined) keep(memory, size);
          memory = undefined;
        },
      };
    },
  };
}

/** All of it, wherever something may have been written; what has never been touched is read, and stays untouched. */
function wipe(buffer: ArrayBuffer): void {
  for (let at = 0; at < buffer.byteLength; at += pageBytes) {
    const page = new Uint8Array(buffer, at, pageBytes);
    if (!zeros.equals(page)) page.fill(0);
  }
}
