import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { createLastUsedTimes, touchedBy } from "../../../../src/broker/stored/last-used.ts";
import { type Store, StoreUnavailable } from "../../../../src/store/contract.ts";
import {
  createIntegrations,
  keyedConnection,
  startTestSidecar,
  temporaryFolder,
} from "../../../support/sidecar/harness.ts";
import { openTestStore, type TestWorld, testWorld } from "../world.ts";

const start = Date.parse("2026-01-01T00:00:00Z");
const key = "touch\0x";

/** Last-used times whose write-behind runs when the test says so. */
async function openTouches(given: Store | undefined = undefined) {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  const world: TestWorld = testWorld();
  const store = given ?? (await openTestStore(world));
  const lastUsed = createLastUsedTimes({ store, world });
  onTestFinished(() => lastUsed.close());
  /** Lets the writing-behind come, and waits until it has been written. */
  async function flushed(): Promise<number> {
    vi.advanceTimersByTime(5_000);
    await store.commit([{ key: "barrier", value: undefined }]);
    return store.status().revision;
  }
  return { world, store, lastUsed, flushed, used: touchedBy(key) };
}

it("writes one time of last use a minute, however often a thing is used", async () => {
  const { world, lastUsed, flushed, used } = await openTouches();
  const before = await flushed();
  for (let second = 0; second < 60; second += 1) {
    lastUsed.touch(used);
    world.advance(999);
    await flushed();
  }
  // Sixty barriers, and the one write.
  expect(await flushed()).toBe(before + 60 + 1 + 1);
  world.advance(60);
  lastUsed.touch(used);
  expect(await flushed()).toBe(before + 62 + 2);
});

it("knows a use before it is written, and after", async () => {
  const { world, lastUsed, flushed, used } = await openTouches();
  expect(await lastUsed.lastOf([key, "touch\0never"])).toEqual([undefined, undefined]);
  lastUsed.touch(used);
  expect(await lastUsed.lastOf([key])).toEqual([start]);
  await flushed();
  world.advance(90_000);
  expect(await lastUsed.lastOf([key])).toEqual([start]);
  lastUsed.touch(used);
  expect(await lastUsed.lastOf([key, "touch\0never"])).toEqual([start + 90_000, undefined]);
});

it("writes everything pending when it is closed", async () => {
  const folder = join(await temporaryFolder(), "store");
  const store = await openTestStore(testWorld(), folder);
  const { lastUsed, used } = await openTouches(store);
  lastUsed.touch(used);
  await lastUsed.close();
  await store.close();
  const { lastUsed: again } = await openTouches(await openTestStore(testWorld(), folder));
  expect(await again.lastOf([key])).toEqual([start]);
});

it("outlives a store that takes no writes, and writes the next use", async () => {
  const { world, store, lastUsed, flushed, used } = await openTouches();
  const { commit, getMany } = store;
  store.commit = () => Promise.reject(new StoreUnavailable("full"));
  lastUsed.touch(used);
  vi.advanceTimersByTime(5_000);
  await vi.waitFor(() => expect(world.logged.join("")).toContain("last-used times not written"));
  store.commit = commit;
  lastUsed.touch(used);
  const before = store.status().revision;
  expect(await flushed()).toBe(before + 2);

  // If the store fails, memory still answers.
  store.getMany = () => Promise.reject(new StoreUnavailable("closed"));
  expect(await lastUsed.lastOf([key, "touch\0never"])).toEqual([start, undefined]);
  store.getMany = getMany;
});

it("never moves a connection's revision by reading it, and shows its last use to the minute", async () => {
  let now = start;
  const folder = await temporaryFolder();
  const running = await startTestSidecar({ folder, now: () => now });
  await createIntegrations(running);
  const get = async () => (await running.rest("GET", "/connections/ada?provider_config_key=keyed")).body;
  const created = (await running.rest("POST", "/connections", { body: keyedConnection("ada") })).body;
  expect(created.last_fetched_at).toBe(created.created_at);
  const stored = () => running.sidecar.broker.connections.get(ref);
  const ref = { $typeName: "latchkey.v1.ConnectionRef" as const, environment: "dev", integration: "keyed", id: "ada" };
  const { revision } = await stored();

  now += 30_000;
  expect((await get()).last_fetched_at).toBe("2026-01-01T00:00:30.000Z");
  now += 59_999;
  expect((await get()).last_fetched_at).toBe("2026-01-01T00:00:30.000Z");
  now += 1;
  const last = await get();
  expect(last.last_fetched_at).toBe("2026-01-01T00:01:30.000Z");
  expect(last.updated_at).toBe(created.updated_at);
  expect((await stored()).revision).toBe(revision);

  // A look at the connection alone uses no credentials.
  now += 120_000;
  const looked = await running.rest("GET", "/connections/ada?provider_config_key=keyed&credentials=false");
  expect(looked.body.last_fetched_at).toBe("2026-01-01T00:01:30.000Z");
  await running.stop();

  const again = await startTestSidecar({ folder, now: () => now });
  const after = await again.rest("GET", "/connections/ada?provider_config_key=keyed&credentials=false");
  expect(after.body.last_fetched_at).toBe("2026-01-01T00:01:30.000Z");
});
