import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { letSmallHeapGrow } from "../../../../src/base/node/old-generation.ts";

const mib = 1024 * 1024;

/** A heap whose size after a collection the test sets. */
function startGrowth(given?: string) {
  const growths: number[] = [];
  let looked: (() => void) | undefined;
  let bytes = 30 * mib;
  const end = letSmallHeapGrow({
    given,
    size: () => bytes,
    setGrowth: (percent) => void growths.push(percent),
    onCollection(look) {
      looked = look;
      return () => {
        looked = undefined;
      };
    },
  });
  const collect = (size: number) => {
    bytes = size * mib;
    looked?.();
  };
  return { growths, collect, end };
}

it("lets a small heap grow, and leaves a larger one to V8", () => {
  const { growths, collect, end } = startGrowth();
  expect(growths).toEqual([300]);
  for (const size of [40, 90, 200]) collect(size);
  expect(growths).toEqual([300, 0]);
  collect(40);
  end();
  expect(growths).toEqual([300, 0, 300, 0]);
});

it("leaves the growth to an operator who names it", () => {
  const { growths, collect, end } = startGrowth("--heap-growing-percent=50");
  collect(90);
  end();
  expect(growths).toEqual([]);
});

it("sets a flag that this V8 knows", () => {
  const module = fileURLToPath(new URL("../../../../src/base/node/old-generation.ts", import.meta.url));
  const program = `(await import(${JSON.stringify(module)})).letSmallHeapGrow()();`;
  const { stderr, status } = spawnSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" });
  // V8 writes a line about a flag that it does not know.
  expect([stderr, status]).toEqual(["", 0]);
});
