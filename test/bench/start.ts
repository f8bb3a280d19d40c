import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { recordFigure } from "./score/figure.ts";
import { fixedWorkMs } from "./score/fixed-work.ts";
import { builtDist, ms, quantile, startBenchSidecar, withFolder } from "./sidecar-process.ts";

/** In milliseconds: the time until ready is also that of other processes. */
const cpuOfMainThread = (pid: number): number =>
  Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ")[0]) / 1e6;

interface StartOptions {
  readonly count: number;
  /** Another build of the sidecar (its `latchkey.js`), measured in the same rounds. */
  readonly beside: string | undefined;
}

/** Starts over an empty store until ready, beside a Node that starts and does nothing; and the memory after the start. */
export async function start({ count, beside }: StartOptions): Promise<void> {
  const dists = new Map([["empty sidecar", builtDist]]);
  if (beside !== undefined) dists.set("beside", beside);
  const times = new Map<string, number[]>();
  const memory = new Map<string, number[]>();
  const note = (all: Map<string, number[]>, name: string, value: number) =>
    all.set(name, [...(all.get(name) ?? []), value]);
  for (let round = 0; round < (count || 15); round += 1) {
    for (const [name, dist] of dists) {
      await withFolder(async (folder) => {
        const running = await startBenchSidecar({ folder, dist });
        note(times, `${name}, start to ready`, running.readyMs);
        note(times, `${name}, CPU of the main thread until ready`, cpuOfMainThread(running.pid));
        note(memory, `${name}, memory of its own`, running.ownMiB());
        await running.stop();
      });
    }
    const since = performance.now();
    spawnSync(process.execPath, ["-e", "0"]);
    note(times, "node -e 0", performance.now() - since);
    note(times, "fixed work", fixedWorkMs());
  }
  for (const [what, peer] of [
    ["start to ready", "node -e 0"],
    ["CPU of the main thread until ready", "fixed work"],
  ] as const) {
    recordFigure({
      name: `empty store, ${what}`,
      unit: "ms",
      better: "lower",
      own: times.get(`empty sidecar, ${what}`) ?? [],
      peers: { [peer]: times.get(peer) ?? [], beside: times.get(`beside, ${what}`) ?? [] },
    });
  }
  const say = (name: string, values: readonly number[], format: (value: number) => string) => {
    const sorted = values.toSorted((a, b) => a - b);
    process.stdout.write(`${name}: median ${format(quantile(sorted, 0.5))}, worst ${format(quantile(sorted, 1))}\n`);
  };
  for (const [name, values] of times) say(name, values, ms);
  for (const [name, values] of memory) say(name, values, (value) => `${value} MiB`);
}
