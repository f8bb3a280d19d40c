import v8 from "node:v8";
import vm from "node:vm";

interface CollectOptions {
  readonly type: "minor" | "major";
  /** Repeats a major collection until nothing more is found, and gives the memory back. */
  readonly flavor?: "regular" | "last-resort";
}

/**
 * Returns V8's function that collects garbage. Node only exposes it with a flag; a context created while the flag is set
 * has the function. Undefined without it: V8 collects when it sees fit.
 */
export function garbageCollector(): ((options: CollectOptions) => void) | undefined {
  v8.setFlagsFromString("--expose-gc");
  const collect: unknown = vm.runInNewContext("globalThis.gc");
  v8.setFlagsFromString("--no-expose-gc");
  return typeof collect === "function" ? (options) => void collect(options) : undefined;
}
