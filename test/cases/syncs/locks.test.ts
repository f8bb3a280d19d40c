import { expect, it } from "vitest";
import { provider } from "../channels/channels.ts";
import { startScripted } from "./scripting.ts";

const action = (body: string) => `
  import { createAction } from "latchkey/scripts";
  const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
  export default createAction({ description: "", exec: async (nango: any, input: any) => { ${body} } });`;

const scripts = {
  "actions/hold.ts": action(
    "const got = await nango.tryAcquireLock(input.lock); await nango.updateMetadata({ holds: got }); await wait(input.ms); return got;",
  ),
  "actions/try.ts": action(
    "for (let i = 0; i < input.times; i += 1) { if (await nango.tryAcquireLock(input.lock)) return true; await wait(50); } return false;",
  ),
  "actions/own.ts": action(`
    const all = [await nango.tryAcquireLock({ key: "own", ttlMs: 5000 }), await nango.tryAcquireLock({ key: "own", ttlMs: 5000 })];
    all.push(await nango.releaseLock({ key: "own" }), await nango.releaseLock({ key: "own" }));
    await nango.tryAcquireLock({ key: "own" });
    await nango.releaseAllLocks();
    return [...all, nango.getFlowAttributes()];`),
  // Waits for neither the release nor the second lock.
  "actions/again.ts": action(
    "await nango.tryAcquireLock(input.lock); void nango.releaseLock(input.lock); return nango.tryAcquireLock(input.lock);",
  ),
  "actions/left.ts": action("void nango.tryAcquireLock(input.lock); return true;"),
  "actions/extend.ts": action(
    "const all = [await nango.tryAcquireLock(input.lock)]; await nango.updateMetadata({ extends: true }); for (let i = 0; i < 300; i += 1) all.push(await nango.tryAcquireLock(input.lock)); return all.every((one) => one);",
  ),
  "actions/grab.ts": action(
    "for (let i = 0; i < input.times; i += 1) if (await nango.tryAcquireLock(input.lock)) return true; return false;",
  ),
  "actions/many.ts": action(
    "for (let i = 0; i < 101; i += 1) await nango.tryAcquireLock({ key: `many-${i}`, ttlMs: 1000 });",
  ),
};
const headers = { "provider-config-key": provider, "connection-id": "ada" };

it("gives one run a lock at a time, until it ends, releases it, or its time is over", async () => {
  const started = await startScripted(scripts);
  await started.connect("ada");
  const run = async (action_name: string, input: object = {}) =>
    (await started.sidecar.rest("POST", "/action/trigger", { headers, body: { action_name, input } })).body;
  const holds = () => started.metadata("ada").then(({ holds: one }) => one);
  const lock = { key: "import", ttlMs: 60_000 };

  const holding = run("hold", { lock, ms: 1_500 });
  await expect.poll(holds).toBe(true);
  expect(await run("try", { lock, times: 1 })).toBe(false);
  expect(await run("try", { lock: { key: "another", ttlMs: 60_000 }, times: 1 })).toBe(true);
  expect(await holding).toBe(true);
  // The end of the run released it, long before its timeout.
  expect(await run("try", { lock, times: 1 })).toBe(true);

  const short = { key: "short", ttlMs: 300 };
  let isOver = false;
  const sleeping = run("hold", { lock: short, ms: 5_000 }).finally(() => {
    isOver = true;
  });
  expect(await run("try", { lock: short, times: 80 })).toBe(true);
  expect(isOver).toBe(false);
  await sleeping;

  expect(await run("own")).toEqual([true, true, true, false, {}]);
  expect((await run("many")).error.message).toContain("at most 100 locks");
  for (const wrong of [{}, { key: "" }, { key: "x".repeat(256) }, { key: "x", ttlMs: 0 }, { key: "x", ttlMs: 1e9 }]) {
    expect((await run("try", { lock: wrong, times: 1 })).error.code).toBe("action_script_failure");
  }
});

it("lets a run extend its lock, take it again, and leave none behind, awaited or not", async () => {
  const started = await startScripted(scripts);
  await started.connect("ada");
  const run = async (action_name: string, input: object = {}) =>
    (await started.sidecar.rest("POST", "/action/trigger", { headers, body: { action_name, input } })).body;

  for (let i = 0; i < 5; i += 1) expect(await run("again", { lock: { key: "again", ttlMs: 60_000 } })).toBe(true);
  for (let i = 0; i < 5; i += 1) {
    const lock = { key: `left-${i}`, ttlMs: 60_000 };
    expect(await run("left", { lock })).toBe(true);
    expect(await run("try", { lock, times: 1 })).toBe(true);
  }
  const lock = { key: "extended", ttlMs: 60_000 };
  const extending = run("extend", { lock });
  await expect.poll(() => started.metadata("ada").then((found) => found["extends"])).toBe(true);
  const [isKept] = await Promise.all([extending, run("grab", { lock, times: 200 }), run("grab", { lock, times: 200 })]);
  expect(isKept).toBe(true);
});
