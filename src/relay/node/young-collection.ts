import v8 from "node:v8";
import vm from "node:vm";

/**
 * Node allocates 64 KiB for each read of a caller's body, and V8 counts them towards the limit of its old generation,
 * though all but the last are garbage: for each gibibyte that passes it marks the whole heap twenty times, 30 ms each,
 * more than half of what an upload costs. A look at the young ones alone takes half a millisecond and finds them. It has
 * to come before V8 has begun to mark: within that it would be what ends it, and the whole heap is looked at after all.
 * On one core, by how often it comes, an upload took as much CPU as: never 1.8 times nginx's, every 16 MiB 2.7, every
 * 8 MiB 1.1, every 4 MiB 0.87, every 2 MiB 0.93.
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

const everyBytes = 4 * 1024 * 1024;

type Collect = (options: { readonly type: "minor" }) => void;

/** Not to be had from Node as it is started; a context that is made while the flag is set has it. */
function youngCollector(): Collect {
  v8.setFlagsFromString("--expose-gc");
  const collect = vm.runInNewContext("gc") as Collect;
  v8.setFlagsFromString("--no-expose-gc");
  return collect;
}
