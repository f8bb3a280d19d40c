import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { expect, it, onTestFinished } from "vitest";
import { createLog } from "../../../src/base/log.ts";
import { createMetrics } from "../../../src/base/metrics/metrics.ts";
import { type Key, KeySchema } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { StaleWrite } from "../../../src/store/contract.ts";
import { keyOf, under } from "../../../src/store/keys.ts";
import { openLevelStore } from "../../../src/store/level/level.ts";
import { createRecords, transact } from "../../../src/store/records.ts";
import { temporaryFolder } from "../../support/sidecar/harness.ts";

async function openKeys() {
  const log = createLog({ level: "error", format: "json", write: () => {} });
  const store = await openLevelStore({ folder: join(await temporaryFolder(), "store"), log, metrics: createMetrics() });
  onTestFinished(() => store.close());
  const keys = createRecords({
    store,
    name: "key",
    schema: KeySchema,
    key: ({ environment, id }: Key) => [environment, id],
    complete: (key, revision) => {
      key.revision = BigInt(revision);
    },
    strip: (key) => ({ ...key, revision: 0n }),
    indexes: { scope: ({ environment, scopes }: Key) => scopes.map((scope) => [environment, String(scope)]) },
  });
  const add = (environment: string, id: string, scopes: Key["scopes"] = []) =>
    store.commit(keys.change({ before: undefined, after: create(KeySchema, { environment, id, scopes }) }));
  return { store, keys, add };
}

it("fills in the revision that a record is at", async () => {
  const { keys, add } = await openKeys();
  const revision = await add("dev", "a");
  expect((await keys.get("dev", "a"))?.value).toMatchObject({ id: "a", revision: BigInt(revision) });
});

it("pages through one environment and never into the next", async () => {
  const { keys, add } = await openKeys();
  for (const id of ["c", "a", "b"]) await add("dev", id);
  await add("dev2", "x");
  await add("de", "y");
  const first = await keys.page({ under: ["dev"], limit: 2 });
  expect(first.map(({ value }) => value.id)).toEqual(["a", "b"]);
  const rest = await keys.page({ under: ["dev"], after: first.at(-1)?.position, limit: 10 });
  expect(rest.map(({ value }) => value.id)).toEqual(["c"]);
});

it("finds records by a secondary key, and no longer once they left it", async () => {
  const { store, keys, add } = await openKeys();
  await add("dev", "a", [1, 2]);
  await add("dev", "b", [2]);
  const byTwo = async () =>
    (await keys.pageBy("scope", { under: ["dev", "2"], limit: 10 })).map(({ value }) => value.id);
  expect(await byTwo()).toEqual(["a", "b"]);

  const before = await keys.get("dev", "a");
  await store.commit(keys.change({ before, after: create(KeySchema, { environment: "dev", id: "a", scopes: [1] }) }));
  expect(await byTwo()).toEqual(["b"]);
  await store.commit(keys.change({ before: await keys.get("dev", "b"), after: undefined }));
  expect(await byTwo()).toEqual([]);
  // The index has no entry left.
  expect(await store.list({ ...under("key.scope"), limit: 10 })).toHaveLength(1);
});

it("refuses a change whose before is no longer true", async () => {
  const { store, keys, add } = await openKeys();
  await add("dev", "a");
  const before = await keys.get("dev", "a");
  await store.commit(keys.change({ before, after: create(KeySchema, { environment: "dev", id: "a", scopes: [1] }) }));
  const late = store.commit(keys.change({ before, after: undefined }));
  await expect(late).rejects.toBeInstanceOf(StaleWrite);
  await expect(add("dev", "a")).rejects.toBeInstanceOf(StaleWrite);
});

it("decides again after a concurrent change", async () => {
  const { store, keys, add } = await openKeys();
  await add("dev", "a");
  let decisions = 0;
  await transact(store, async () => {
    decisions += 1;
    const before = await keys.get("dev", "a");
    if (decisions === 1) {
      await store.commit(
        keys.change({ before, after: create(KeySchema, { environment: "dev", id: "a", scopes: [3] }) }),
      );
    }
    const scopes = [...(before?.value.scopes ?? []), 4] as Key["scopes"];
    return {
      changes: keys.change({ before, after: create(KeySchema, { environment: "dev", id: "a", scopes }) }),
      result: undefined,
    };
  });
  expect((await keys.get("dev", "a"))?.value.scopes).toEqual([3, 4]);
  expect(decisions).toBe(2);
});

it("refuses a part that would run into the next", () => {
  expect(() => keyOf("connection", "dev\0x", "id")).toThrow(/NUL/);
});

it("deletes a record's secondary keys as they were stored", async () => {
  const { store } = await openKeys();
  let isKept = true;
  const records = createRecords({
    store,
    name: "kept",
    schema: KeySchema,
    key: ({ id }: Key) => [id],
    facets: { size: ({ id }: Key) => (isKept ? Uint8Array.of(id.length) : undefined) },
  });
  const facet = async () => (await store.get(keyOf("kept.size", "abc")))?.value;
  await store.commit(records.change({ before: undefined, after: create(KeySchema, { id: "abc" }) }));
  expect([...((await facet()) ?? [])]).toEqual([3]);
  isKept = false;
  await store.commit(records.change({ before: await records.get("abc"), after: undefined }));
  expect(await facet()).toBeUndefined();
});
