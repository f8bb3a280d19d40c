import type { ContextPointer, Ffi, Module, ValuePointer } from "./quickjs.ts";

/** Moves values in and out of a machine's memory. Values that it returns must be freed by the caller. */
export interface MachineValues {
  textOf(value: Parameters<Ffi["QTS_GetString"]>[1]): string;
  asValue(text: string): ValuePointer;
  /** Reads a property of the global object. */
  property(name: string): ValuePointer;
  evaluate(code: string, file: string): void;
  /** Calls a function with text; returns its result as text. */
  call(fn: ValuePointer, args: readonly string[]): string;
  free(...values: readonly ValuePointer[]): void;
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

const decoder = new TextDecoder();
const encoder = new TextEncoder();

/** Allocates bytes in the machine's memory. The caller frees them. */
export function allocate(module: Module, bytes: number): number {
  const at = Number(module._malloc(bytes));
  if (at === 0) throw new MachineError("out of memory", "");
  return at;
}

export function createMachineValues(module: Module, ffi: Ffi, context: ContextPointer): MachineValues {
  function free(...values: readonly ValuePointer[]): void {
    for (const value of values) ffi.QTS_FreeValuePointer(context, value);
  }

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
    const at = allocate(module, bytes.length + 1);
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
    free(value);
    const stackName = asValue("stack");
    const stack = ffi.QTS_GetProp(context, error, stackName);
    const inner = Number(stack) === 0 ? "" : textOf(stack);
    const message = textOf(error);
    free(...[stackName, stack, error].filter((one) => Number(one) !== 0));
    throw new MachineError(message, inner);
  }

  return {
    free,
    textOf,
    asValue,
    property(name) {
      const globals = ffi.QTS_GetGlobalObject(context);
      const key = asValue(name);
      const found = ffi.QTS_GetProp(context, globals, key);
      free(key, globals);
      return found;
    },
    evaluate(code, file) {
      const { at, length } = textInside(code);
      const value = ffi.QTS_Eval(context, at as Parameters<Ffi["QTS_Eval"]>[1], length, file, 0 as never, 0 as never);
      module._free(at);
      free(unwrapped(value));
    },
    call(fn, args) {
      const values = args.map(asValue);
      const list = allocate(module, 4 * values.length);
      const view = new DataView(module.HEAPU8.buffer);
      for (const [i, value] of values.entries()) view.setUint32(list + 4 * i, Number(value), true);
      const undefinedValue = ffi.QTS_GetUndefined();
      const value = ffi.QTS_Call(context, fn, undefinedValue, values.length, list as Parameters<Ffi["QTS_Call"]>[4]);
      module._free(list);
      free(...values);
      const result = unwrapped(value);
      const answer = textOf(result);
      free(result);
      return answer;
    },
  };
}
