import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { createLog } from "../../../../src/base/log.ts";
import { createMetrics } from "../../../../src/base/metrics/metrics.ts";
import { StoreDamaged, StoreUnavailable } from "../../../../src/store/contract.ts";
import { openLevelStore } from "../../../../src/store/level/level.ts";
import { createSharedReads } from "../../../../src/store/postgres/shared-reads.ts";
import { put, remove } from "../../../support/postgres/stores.ts";
import { temporaryFolder } from "../../../support/sidecar/harness.ts";

const log = createLog({ level: "error", format: "json", write: () => {} });

describe("reads of single keys", () => {
  async function open() {
    const store = await openLevelStore({
      folder: join(await temporaryFolder(), "store"),
      log,
      metrics: createMetrics(),
    });
    onTestFinished(() => store.close());
    const failing = new Map<string, Error>();
    const made: number[] = [];
    const reads = createSharedReads(async (keys) => {
      made.push(keys.length);
      const error = keys.map((key) => failing.get(key)).find((one) => one !== undefined);
      if (error !== undefined) throw error;
      return store.getMany(keys);
    });
    return { store, reads, failing, made };
  }

  it("share reads: each of a few keys is read once for a thousand callers", async () => {
    const { store, reads, made } = await open();
    const keys = Array.from({ length: 50 }, (_, i) => `k${i}`);
    await store.commit(keys.map((key) => put(key, `value of ${key}`)));
    const found = await Promise.all(keys.flatMap((key) => Array.from({ length: 20 }, () => reads([key, "none"]))));
    expect(found.map(([entry, none]) => [Buffer.from(entry?.value ?? []).toString(), none])).toEqual(
      keys.flatMap((key) => Array.from({ length: 20 }, () => [`value of ${key}`, undefined])),
    );
    expect(made).toEqual([51]);
    expect(await reads(["k1", "none", "k1", "k0"])).toMatchObject([
      { key: "k1" },
      undefined,
      { key: "k1" },
      { key: "k0" },
    ]);
    expect(await reads([])).toEqual([]);
  });

  it("are split into limited pieces, a few at a time", async () => {
    const { store, reads, made } = await open();
    const keys = Array.from({ length: 1_000 }, (_, i) => `k${i}`);
    await store.commit(keys.map((key) => put(key, key)));
    const found = await Promise.all(keys.map((key) => reads([key])));
    expect(found.map(([entry]) => entry?.key)).toEqual(keys);
    expect(Math.max(...made)).toBeLessThanOrEqual(64);
    // A larger read is sent at once.
    expect(await reads(keys)).toHaveLength(1_000);
    expect(made.at(-1)).toBe(1_000);
  });

  it("see every commit before their request, however many are in progress", async () => {
    const { store, reads } = await open();
    let isOver = false;
    const others = Array.from({ length: 50 }, async () => {
      while (!isOver) await reads(["counter"]);
    });
    for (let i = 1; i <= 200; i += 1) {
      const revision = await store.commit([i % 10 === 0 ? remove("counter") : put("counter", `${i}`)]);
      const [entry] = await reads(["counter"]);
      expect(entry?.revision).toBe(i % 10 === 0 ? undefined : revision);
    }
    isOver = true;
    await Promise.all(others);
  });

  it("succeed beside a damaged one; if the store is away, all fail at once", async () => {
    const { store, reads, failing, made } = await open();
    await store.commit([put("a", "1"), put("b", "1")]);
    const outcomes = () =>
      Promise.allSettled([reads(["a"]), reads(["x"]), reads(["b"])]).then((all) => all.map(({ status }) => status));
    failing.set("x", new StoreDamaged("x"));
    expect(await outcomes()).toEqual(["fulfilled", "rejected", "fulfilled"]);
    failing.set("x", new StoreUnavailable("away"));
    made.length = 0;
    expect(await outcomes()).toEqual(["rejected", "rejected", "rejected"]);
    expect(made).toEqual([3]);
  });
});
