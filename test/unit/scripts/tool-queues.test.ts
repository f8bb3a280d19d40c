import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { expect, it } from "vitest";
import { createToolQueues, type ToolQueue } from "../../../src/scripts/tool-queues.ts";
import { action, hosted } from "./hosting.ts";

function add(row: ToolQueue, names: readonly string[], begun: string[]): void {
  for (const name of names) row.add(() => begun.push(name));
}

async function until(isSo: () => boolean): Promise<void> {
  for (const end = performance.now() + 5_000; !isSo() && performance.now() < end; ) await turn();
}

it("starts a call of each run in turn, however many one has queued", async () => {
  const rows = createToolQueues();
  const [greedy, modest] = [rows.open(), rows.open()];
  const begun: string[] = [];
  add(greedy, ["g1", "g2", "g3", "g4"], begun);
  add(modest, ["m1", "m2"], begun);
  await until(() => begun.length === 6);
  expect(begun).toEqual(["g1", "m1", "g2", "m2", "g3", "g4"]);
  add(modest, ["m3"], begun);
  await until(() => begun.length === 7);
  expect(begun.at(-1)).toBe("m3");
  rows.close();
});

it("starts a few in a tick, no cancelled ones, and all at once of a run that ends", async () => {
  const rows = createToolQueues();
  const [ended, gone, other] = [rows.open(), rows.open(), rows.open()];
  const begun: string[] = [];
  add(ended, ["a1", "a2"], begun);
  add(gone, ["b1", "b2"], begun);
  add(other, ["c1", "c2", "c3", "c4", "c5"], begun);
  ended.startAll();
  expect(begun).toEqual(["a1", "a2"]);
  gone.clear();
  // The number of ticks depends on the loop: after a pause it may delay the first.
  let [seen, mostInTurn] = [begun.length, 0];
  await until(() => {
    mostInTurn = Math.max(mostInTurn, begun.length - seen);
    seen = begun.length;
    return seen === 7;
  });
  expect(mostInTurn).toBeLessThanOrEqual(4);
  expect(begun).toEqual(["a1", "a2", "c1", "c2", "c3", "c4", "c5"]);
  add(other, ["c6"], begun);
  rows.close();
  await sleep(20);
  expect(begun).toHaveLength(7);
});

it("executes un-awaited calls of a script before its end, successful or not", async () => {
  const at = await hosted({
    "calendar/actions/returns.ts": action(
      "for (let i = 0; i < 10; i++) void nango.get({ endpoint: '/' + i }); return 1;",
    ),
    "calendar/actions/throws.ts": action(
      "for (let i = 0; i < 10; i++) void nango.get({ endpoint: '/' + i }); throw 1;",
    ),
  });
  for (const name of ["returns", "throws"]) {
    let asked = 0;
    await at.run(name, {
      async tool() {
        asked += 1;
        return { status: 200, headers: {}, data: null };
      },
    });
    expect(asked, name).toBe(10);
  }
});
