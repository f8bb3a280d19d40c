import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import packaged from "@jitl/quickjs-ng-wasmfile-release-sync";
import { createSpareMemories, type MachineMemory, pageBytes } from "./spare-memory.ts";

// The package's types describe its CommonJS build, where the default export is a field; this imports the ESM build.
const variant = packaged as unknown as (typeof packaged)["default"];

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
  readonly pieces: readonly Piece[];
  readonly pages: number;
  readonly runtime: RuntimePointer;
  readonly context: ContextPointer;
  readonly entry: ValuePointer;
}

interface Piece {
  readonly at: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** An error thrown inside, rethrown outside with what is known of it. */
export class MachineError extends Error {
  override readonly name = "MachineError";
  /** The stack as the engine writes it. */
  readonly inner: string;

  constructor(message: string, inner: string) {
    super(message);
    this.inner = inner;
  }
}

type Ffi = InstanceType<Awaited<ReturnType<typeof variant.importFFI>>>;
type Module = ConstructorParameters<Awaited<ReturnType<typeof variant.importFFI>>>[0];
type RuntimePointer = ReturnType<Ffi["QTS_NewRuntime"]>;
type ContextPointer = ReturnType<Ffi["QTS_NewContext"]>;
type ValuePointer = ReturnType<Ffi["QTS_NewObject"]>;

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
  /** Snapshots whose last run needed more memory than it began with: the next run will, too. */
  const hungry = new WeakSet<Picture>();
  const boot = async (pages: number, { memoryBytes }: MachineLimits, outside: MachineHost, mayBeLarger = false) => {
    const mostPages = Math.max(pages, Math.floor(memoryBytes / pageBytes));
    const held = spare.take({ pages, mostPages, mayBeLarger });
    const module = await loader({
      wasmMemory: held.memory,
      instantiateWasm(imports, done) {
        done(new WebAssembly.Instance(compiled, imports));
        return {};
      },
      // Suppresses what the module would print when it aborts. A spread, since the types lack both names.
      ...{ print: () => undefined, printErr: () => undefined },
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

const decoder = new TextDecoder();
const encoder = new TextEncoder();

function createMachine(
  { module, held, ffi, outside }: EngineParts,
  pointers: Pointers,
  written: ReadonlySet<number>,
  onRelease: (neededMore: boolean) => void = () => undefined,
): Machine & { giveHost(): void } {
  const { runtime, context } = pointers;
  const wasmMemory = held.memory;
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

  function textOf(value: Parameters<Ffi["QTS_GetString"]>[1]): string {
    const at = ffi.QTS_GetString(context, value);
    if (Number(at) === 0) return "";
    const end = module.HEAPU8.indexOf(0, at);
    const text = decoder.decode(module.HEAPU8.subarray(at, end));
    ffi.QTS_FreeCString(context, at);
    return text;
  }

  /** Copies text into the machine's memory, zero-terminated. The caller frees it. */
  function textInside(text: string): { readonly at: number; readonly length: number } {
    const bytes = encoder.encode(text);
    const at = Number(module._malloc(bytes.length + 1));
    if (at === 0) throw new MachineError("out of memory", "");
    module.HEAPU8.set(bytes, at);
    module.HEAPU8[at + bytes.length] = 0;
    return { at, length: bytes.length };
  }

  function asValue(text: string): ValuePointer {
    const { at } = textInside(text);
    const value = ffi.QTS_NewString(context, at as Parameters<Ffi["QTS_NewString"]>[1]);
    module._free(at);
    return value;
  }

  /** Returns the value, or throws the pending exception. */
  function unwrapped(value: ValuePointer): ValuePointer {
    const error = ffi.QTS_ResolveException(context, value);
    if (Number(error) === 0) return value;
    ffi.QTS_FreeValuePointer(context, value);
    const stackName = asValue("stack");
    const stack = ffi.QTS_GetProp(context, error, stackName);
    const inner = Number(stack) === 0 ? "" : textOf(stack);
    const message = textOf(error);
    for (const one of [stackName, stack, error]) if (Number(one) !== 0) ffi.QTS_FreeValuePointer(context, one);
    throw new MachineError(message, inner);
  }

  function property(name: string): ValuePointer {
    const place = ffi.QTS_GetGlobalObject(context);
    const key = asValue(name);
    const found = ffi.QTS_GetProp(context, place, key);
    ffi.QTS_FreeValuePointer(context, key);
    ffi.QTS_FreeValuePointer(context, place);
    return found;
  }

  function evaluate(code: string, file: string): void {
    const { at, length } = textInside(code);
    const value = ffi.QTS_Eval(context, at as Parameters<Ffi["QTS_Eval"]>[1], length, file, 0 as never, 0 as never);
    module._free(at);
    ffi.QTS_FreeValuePointer(context, unwrapped(value));
  }

  return {
    evaluate,
    giveHost() {
      const place = ffi.QTS_GetGlobalObject(context);
      const key = asValue("__host");
      const host = ffi.QTS_NewFunction(context, "host", 3, false, 1 as Parameters<Ffi["QTS_NewFunction"]>[4]);
      ffi.QTS_SetProp(context, place, key, host);
      for (const one of [host, key, place]) ffi.QTS_FreeValuePointer(context, one);
    },
    takeEntry(name) {
      entry = property(name);
      evaluate(`delete globalThis.${name}`, "host.js");
    },
    enter(op, a, b) {
      if (isReleased) throw new Error("the machine was released");
      if (entry === undefined) throw new Error("the machine has no entry");
      held.forgetRefusal();
      const values = [op, a, b].map(asValue);
      const list = Number(module._malloc(4 * values.length));
      if (list === 0) throw new MachineError("out of memory", "");
      new DataView(wasmMemory.buffer).setUint32(list, Number(values[0]), true);
      new DataView(wasmMemory.buffer).setUint32(list + 4, Number(values[1]), true);
      new DataView(wasmMemory.buffer).setUint32(list + 8, Number(values[2]), true);
      const nothing = ffi.QTS_GetUndefined();
      const value = ffi.QTS_Call(context, entry, nothing, values.length, list as Parameters<Ffi["QTS_Call"]>[4]);
      module._free(list);
      for (const one of values) ffi.QTS_FreeValuePointer(context, one);
      const result = unwrapped(value);
      const answer = textOf(result);
      ffi.QTS_FreeValuePointer(context, result);
      return answer;
    },
    settle() {
      if (isReleased) throw new Error("the machine was released");
      const out = Number(module._malloc(4));
      if (out === 0) throw new MachineError("out of memory", "");
      const value = ffi.QTS_ExecutePendingJob(runtime, jobsAtOnce, out as Parameters<Ffi["QTS_ExecutePendingJob"]>[2]);
      module._free(out);
      ffi.QTS_FreeValuePointerRuntime(runtime, value);
      return ffi.QTS_IsJobPending(runtime) !== 0;
    },
    picture() {
      if (entry === undefined) throw new Error("the machine has no entry");
      const { buffer } = wasmMemory;
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

const spanBytes = 4_096;
const zeros = Buffer.alloc(spanBytes);

/** Returns the indexes of the spans that contain data. */
function usedSpans(buffer: ArrayBuffer): readonly number[] {
  const used: number[] = [];
  for (let at = 0; at < buffer.byteLength; at += spanBytes) {
    if (!zeros.equals(new Uint8Array(buffer, at, spanBytes))) used.push(at / spanBytes);
  }
  return used;
}

/** Merges adjacent spans into pieces. */
function piecesOf(buffer: ArrayBuffer, written: ReadonlySet<number>): readonly Piece[] {
  const spans = [...written.union(new Set(usedSpans(buffer)))].sort((a, b) => a - b);
  const pieces: Piece[] = [];
  let first = 0;
  for (let i = 0; i < spans.length; i += 1) {
    const [from = 0, span = 0] = [spans[first], spans[i]];
    if (spans[i + 1] === span + 1) continue;
    pieces.push({
      at: from * spanBytes,
      bytes: new Uint8Array(buffer.slice(from * spanBytes, (span + 1) * spanBytes)),
    });
    first = i + 1;
  }
  return pieces;
}
