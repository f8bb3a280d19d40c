import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { collectYoungAlone } from "../../../../src/base/node/lone-collector.ts";

it("collects without other threads on one core, unless the operator names the flag", () => {
  const flagsWith = (cores: number, given?: string) => {
    const flags: string[] = [];
    collectYoungAlone({ given, cores: () => cores, setFlag: (flag) => void flags.push(flag) });
    return flags;
  };
  expect(flagsWith(1)).toEqual(["--no-parallel-scavenge"]);
  expect(flagsWith(2)).toEqual([]);
  expect(flagsWith(1, "--title=x --parallel_scavenge")).toEqual([]);
});

it("sets a flag that this V8 knows, after which it still collects", () => {
  const module = fileURLToPath(new URL("../../../../src/base/node/lone-collector.ts", import.meta.url));
  const program = `(await import(${JSON.stringify(module)})).collectYoungAlone({ cores: () => 1 });
    const kept = [];
    for (let i = 0; i < 300_000; i += 1) kept[i % 1_000] = { i, text: "x" + i };`;
  const args = ["--trace-gc", "--input-type=module", "-e", program];
  const { stdout, stderr, status } = spawnSync(process.execPath, args, { encoding: "utf8" });
  expect([stderr, status]).toEqual(["", 0]);
  expect(stdout).toMatch(/Scavenge/);
});
