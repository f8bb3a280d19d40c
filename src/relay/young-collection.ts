import v8 from "node:v8";
import vm from "node:vm";

/**
 * Node allocates 64 KiB for each read of a caller's body, and V8 counts them towards the limit of its old generation,
 * though all but the last are garbage: for each gibibyte that passes it marks the whole heap twenty times, 30 ms each,
 * a third of what an upload costs. A look at the young ones alone takes less than a millisecond and finds them.
 */
export function createYoungCollection(): (bytes: number) => void {
  let collect: Collect | undefined;
  let passed = 0;
  return (bytes) => {
    passed += bytes;
    if (passed < everyBytes) return;
    passed = 0;
    collect ??= youngCollector();
    collect({ type: "minor" });
  };
}

const everyBytes = 16 * 1024 * 1024;

type Collect = (options: { readonly type: "minor" }) => void;

/** Not to be had from Node as it is started; a context that is made while the flag is set has it. */
function youngCollector(): Collect {
  v8.setFlagsFromString("--expose-gc");
  const collect = vm.runInNewContext("gc") as Collect;
  v8.setFlagsFromString("--no-expose-gc");
  return collect;
}
