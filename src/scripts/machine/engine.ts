import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { allocate, createMachineValues } from "./machine-values.ts";
import { type MemoryPiece, piecesOf, usedSpans } from "./memory-pieces.ts";
import {
  type ContextPointer,
  type Ffi,
  type Module,
  type RuntimePointer,
  type ValuePointer,
  variant,
} from "./quickjs.ts";
import { createSpareMemories, type MachineMemory, pageBytes } from "./spare-memory.ts";

/** The used part of the WebAssembly API, which Node's types alone do not declare. */
declare namespace WebAssembly {
  type Imports = Record<string, Record<string, unknown>>;
  class Module {
    constructor(bytes: Uint8Array);
  }
  class Instance {
    constructor(module: Module, imports: Imports);
    readonly exports: Record<string, unknown>;
  }
}

/**
 * QuickJS, with one WebAssembly instance per machine. Only `WebAssembly.Memory` limits a machine's memory: under the
 * engine's own limit, one line of a script once took 2 GiB. A machine can be restored from a snapshot, which takes a
 * hundredth of the time to load its code again.
 */
export interface Engine {
  /** Creates a machine with nothing but the language. */
  blank(limits: MachineLimits, outside: MachineHost): Promise<Machine>;
  restore(picture: Picture, limits: MachineLimits, outside: MachineHost): Promise<Machine>;
}

export interface MachineLimits {
  readonly memoryBytes: number;
  /** A snapshot will be taken, which is as large as the memory in use. */
  readonly isPictured?: true;
}

/** A machine's only access to the outside. */
export interface MachineHost {
  /** The only function available inside. Takes and returns text, and never throws. */
  called(op: string, a: string, b: string): string | undefined;
  /** Called every few thousand steps; returning true ends the running code, which cannot catch that. */
  mustStop(): boolean;
}

export interface Machine {
  evaluate(code: string, file: string): void;
  /** Calls the function that `takeEntry` found; returns its result as text. */
  enter(op: string, a: string, b: string): string;
  /** Stores the global function of this name, and removes it from the globals. */
  takeEntry(name: string): void;
  /** Runs some pending promise jobs; returns false when none are left. */
  settle(): boolean;
  /** Takes a snapshot of all memory in use, and the pointers into it. */
  picture(): Picture;
  /** The latest request for more memory since the last entry was refused. */
  lacksMemory(): boolean;
  /** Ends the use of the machine: its memory is wiped and reused. */
  release(): void;
}

export interface Picture {
  /** The nonzero parts of the memory, with their positions; most of it is zero. */
  readonly pieces: readonly MemoryPiece[];
  readonly pages: number;
  readonly runtime: RuntimePointer;
  readonly context: ContextPointer;
  readonly entry: ValuePointer;
}

/** The minimum that the module declares. */
const minPages = 256;
/** Enough for a thousand nested calls; the module's stack has no guard of its own. */
const stackBytes = 256 * 1_024;
/** Promise jobs run between two checks of the clock. */
const jobsAtOnce = 1_000;

export async function createEngine(): Promise<Engine> {
  const require = createRequire(import.meta.url);
  const compiled = new WebAssembly.Module(readFileSync(require.resolve("@jitl/quickjs-ng-wasmfile-release-sync/wasm")));
  const [loader, Ffi] = await Promise.all([variant.importModuleLoader(), variant.importFFI()]);
  if (typeof loader !== "function") throw new Error("the engine's package has another shape");

  const spare = createSpareMemories();
  /** Suppresses what the module would print when it aborts. The module's types lack both names. */
  const silent = { print: () => undefined, printErr: () => undefined };
  /** Snapshots whose last run needed more memory than it began with: the next run will, too. */
  const hungry = new WeakSet<Picture>();
  const boot = async (pages: number, { memoryBytes }: MachineLimits, outside: MachineHost, mayBeLarger = false) => {
    const maxPages = Math.max(pages, Math.floor(memoryBytes / pageBytes));
    const held = spare.take({ pages, maxPages, mayBeLarger });
    const module = await loader({
      wasmMemory: held.memory,
      instantiateWasm(imports, done) {
        done(new WebAssembly.Instance(compiled, imports));
        return {};
      },
      ...silent,
    });
    return { module, held, ffi: new Ffi(module), outside };
  };

  // Memory that every instance initializes: it must be overwritten even where a snapshot has zeros.
  const fresh = await boot(minPages, { memoryBytes: 0 }, { called: () => undefined, mustStop: () => true });
  const written = new Set(usedSpans(fresh.held.memory.buffer));

  return {
    async blank(limits, outside) {
      const parts = await boot(minPages, limits, outside);
      const runtime = parts.ffi.QTS_NewRuntime();
      parts.ffi.QTS_RuntimeSetMaxStackSize(runtime, stackBytes);
      // Zero means none of the engine's optional features: the plain language.
      const context = parts.ffi.QTS_NewContext(runtime, 0 as Parameters<Ffi["QTS_NewContext"]>[1]);
      const machine = createMachine(parts, { runtime, context }, written);
      parts.ffi.QTS_RuntimeEnableInterruptHandler(runtime);
      machine.giveHost();
      return machine;
    },
    async restore(picture, limits, outside) {
      const isRun = limits.isPictured !== true;
      const parts = await boot(picture.pages, limits, outside, isRun && hungry.has(picture));
      const all = new Uint8Array(parts.held.memory.buffer);
      for (const { at, bytes } of picture.pieces) all.set(bytes, at);
      return createMachine(parts, picture, written, (neededMore) => {
        if (!isRun) return;
        if (neededMore) hungry.add(picture);
        else hungry.delete(picture);
      });
    },
  };
}

interface EngineParts {
  readonly module: Module;
  readonly held: MachineMemory;
  readonly ffi: Ffi;
  readonly outside: MachineHost;
}

interface Pointers {
  readonly runtime: RuntimePointer;
  readonly context: ContextPointer;
  readonly entry?: ValuePointer;
}

function createMachine(
  { module, held, ffi, outside }: EngineParts,
  pointers: Pointers,
  written: ReadonlySet<number>,
  onRelease: (neededMore: boolean) => void = () => undefined,
): Machine & { giveHost(): void } {
  const { runtime, context } = pointers;
  const { textOf, asValue, property, evaluate, call, free } = createMachineValues(module, ffi, context);
  let isReleased = false;
  let entry = pointers.entry;

  module.callbacks = {
    callFunction(_, __, ___, count, args) {
      const [op = "", a = "", b = ""] = Array.from({ length: Math.min(count, 3) }, (_, i) =>
        textOf(ffi.QTS_ArgvGetJSValueConstPointer(args, i)),
      );
      const answer = outside.called(op, a, b);
      return answer === undefined ? (0 as ValuePointer) : asValue(answer);
    },
    shouldInterrupt: () => (outside.mustStop() ? 1 : 0),
    freeHostRef: () => undefined,
    // Modules are never loaded: the bundle is complete, and every `import()` fails.
    loadModuleSource: () => 0 as ReturnType<Module["callbacks"]["loadModuleSource"]> & 0,
    normalizeModule: () => 0 as ReturnType<Module["callbacks"]["normalizeModule"]> & 0,
  };

  return {
    evaluate,
    giveHost() {
      const globals = ffi.QTS_GetGlobalObject(context);
      const key = asValue("__host");
      const host = ffi.QTS_NewFunction(context, "host", 3, false, 1 as Parameters<Ffi["QTS_NewFunction"]>[4]);
      ffi.QTS_SetProp(context, globals, key, host);
      free(host, key, globals);
    },
    takeEntry(name) {
      entry = property(name);
      evaluate(`delete globalThis.${name}`, "host.js");
    },
    enter(op, a, b) {
      if (isReleased) throw new Error("the machine was released");
      if (entry === undefined) throw new Error("the machine has no entry");
      held.forgetRefusal();
      return call(entry, [op, a, b]);
    },
    settle() {
      if (isReleased) throw new Error("the machine was released");
      const out = allocate(module, 4);
      const value = ffi.QTS_ExecutePendingJob(runtime, jobsAtOnce, out as Parameters<Ffi["QTS_ExecutePendingJob"]>[2]);
      module._free(out);
      ffi.QTS_FreeValuePointerRuntime(runtime, value);
      return ffi.QTS_IsJobPending(runtime) !== 0;
    },
    picture() {
      if (entry === undefined) throw new Error("the machine has no entry");
      const { buffer } = held.memory;
      const pieces = piecesOf(buffer, written);
      return { pieces, pages: buffer.byteLength / pageBytes, runtime, context, entry };
    },
    lacksMemory: () => held.wasRefused(),
    release() {
      if (isReleased) return;
      isReleased = true;
      onRelease(held.release());
    },
  };
}
