/** As much of what every engine has as is used here; the types of Node alone do not say it. */
declare namespace WebAssembly {
  class Memory {
    constructor(size: { initial: number; maximum: number });
    readonly buffer: ArrayBuffer;
  }
}

export interface MachineMemory {
  readonly memory: WebAssembly.Memory;
  /** Nobody uses it any more. */
  release(): void;
}

/**
 * Memories of machines that are gone, wiped, for those to come. A new one for each run has V8 collect everything after
 * every fourth, since it counts 16 MiB for each, however little of it is used: that was as much work as the runs.
 */
export interface SpareMemories {
  /** All zeros. */
  take(size: MemorySize): MachineMemory;
}

export interface MemorySize {
  readonly pages: number;
  readonly mostPages: number;
}

export const pageBytes = 65_536;
/** What has been used of each stays this process's: some MiB. */
const mostSpare = 4;
/** Unused for as long they are let go of. */
const restMs = 30_000;

const zeros = Buffer.alloc(pageBytes);

export function createSpareMemories(): SpareMemories {
  let spare: (MemorySize & { readonly memory: WebAssembly.Memory })[] = [];
  let rest: NodeJS.Timeout | undefined;

  function taken({ pages, mostPages }: MemorySize): WebAssembly.Memory {
    const found = spare.find((one) => one.pages === pages && one.mostPages === mostPages);
    if (found === undefined) return new WebAssembly.Memory({ initial: pages, maximum: mostPages });
    spare = spare.filter((one) => one !== found);
    return found.memory;
  }

  function keep(memory: WebAssembly.Memory, size: MemorySize): void {
    // One that has grown cannot shrink.
    if (memory.buffer.byteLength !== size.pages * pageBytes) return;
    wipe(memory.buffer);
    spare = [{ ...size, memory }, ...spare].slice(0, mostSpare);
    clearTimeout(rest);
    rest = setTimeout(() => {
      spare = [];
    }, restMs).unref();
  }

  return {
    take(size) {
      let memory: WebAssembly.Memory | undefined = taken(size);
      const own = memory;
      return {
        memory: own,
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
