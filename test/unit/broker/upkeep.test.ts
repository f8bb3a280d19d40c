import { randomBytes } from "node:crypto";
import { expect, it, onTestFinished } from "vitest";
import { createUpkeep } from "../../../src/broker/system/upkeep.ts";
import { verifyBackup } from "../../../src/store/backup/backup.ts";
import { type Backend, StoreDamaged } from "../../../src/store/contract.ts";
import { localSealKey, type SealKey } from "../../../src/store/sealed/seal-key.ts";
import { openSealedStore } from "../../../src/store/sealed/sealed.ts";
import { openTestStore, testWorld } from "./world.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const key = (id: string) => localSealKey({ id, secret: randomBytes(32) });
const many = (count: number, secret?: true) =>
  Array.from({ length: count }, (_, i) => ({
    key: `k${String(i).padStart(6, "0")}`,
    value: Buffer.alloc(200, i),
    ...(secret && { secret }),
  }));

/** A backend that counts its open snapshots. */
function counting(backend: Backend): Backend & { readonly open: () => number } {
  let open = 0;
  return {
    ...backend,
    open: () => open,
    async snapshot() {
      const snapshot = await backend.snapshot();
      open += 1;
      return {
        ...snapshot,
        async close() {
          open -= 1;
          await snapshot.close();
        },
      };
    },
  };
}

async function openUpkeep(keys: readonly SealKey[] = [key("a")], over?: Backend) {
  const world = testWorld();
  const backend = counting(over ?? (await openTestStore(world)));
  const store = await openSealedStore({ backend, keys, world });
  onTestFinished(() => store.close());
  const damaged = async () => (await world.metrics.storeDamaged.get()).values[0]?.value;
  /** The same, over a backend that is not quite this one. */
  const upkeepOf = (changed: Partial<Backend>) => createUpkeep({ store, backend: { ...backend, ...changed }, world });
  return { backend, store, world, damaged, upkeepOf, upkeep: upkeepOf({}) };
}

const asked = { signal: new AbortController().signal, actor: "a-key" };

async function all<T>(steps: AsyncIterable<T>): Promise<T[]> {
  const seen: T[] = [];
  for await (const step of steps) seen.push(step);
  return seen;
}

it("releases the snapshot at the end of the backup", async () => {
  const { backend, store, upkeep } = await openUpkeep();
  await store.commit(many(3_000));
  const { revision } = backend.status();
  const pieces = await all(upkeep.backup(asked));
  expect(backend.open()).toBe(0);
  const chunks = pieces.flatMap((piece) => (piece.case === "chunk" ? [piece.value] : []));
  const manifest = await verifyBackup(
    (async function* () {
      yield* chunks;
    })(),
  );
  expect(pieces.at(-1)).toMatchObject({
    case: "manifest",
    value: { count: manifest.count, storeId: manifest.storeId },
  });
  expect(manifest.revision).toBe(BigInt(revision));
});

it("releases the snapshot when the backup's reader leaves, or is cancelled", async () => {
  const { backend, store, upkeep } = await openUpkeep();
  await store.commit(many(3_000));
  for await (const _ of upkeep.backup(asked)) {
    expect(backend.open()).toBe(1);
    break;
  }
  expect(backend.open()).toBe(0);

  const told = new AbortController();
  const seen: string[] = [];
  for await (const piece of upkeep.backup({ ...asked, signal: told.signal })) {
    seen.push(piece.case);
    told.abort();
  }
  // Truncated: the end marker is missing.
  expect(seen).toEqual(["chunk"]);
  expect(backend.open()).toBe(0);
});

it("takes no backup of damaged data, and says what to do", async () => {
  const { backend, upkeepOf } = await openUpkeep();
  const { backup } = upkeepOf({
    async snapshot() {
      const snapshot = await backend.snapshot();
      async function* pages() {
        yield* snapshot.pages();
        throw new StoreDamaged("k000001");
      }
      return { ...snapshot, pages };
    },
  });
  await expect(all(backup(asked))).rejects.toThrow(/damaged.*latchkey store scrub/);
  expect(backend.open()).toBe(0);
});

it("takes no backup of a store with a damaged file, even if all entries can be read", async () => {
  const { backend, upkeepOf } = await openUpkeep();
  const { backup } = upkeepOf({
    async *scrub() {
      yield { entries: [], damaged: ["the file 7.ldb"] };
    },
  });
  await expect(all(backup(asked))).rejects.toThrow(/damaged/);
  expect(backend.open()).toBe(0);
});

it("finds no damage in an intact store, after reading all of it", async () => {
  const { store, upkeep, damaged } = await openUpkeep();
  await store.commit([...many(2_500), { key: "secret", value: bytes("s"), secret: true }]);
  const steps = await all(upkeep.scrub(asked));
  expect(steps.length).toBeGreaterThan(3);
  // Two data keys are in it as well.
  expect(steps.at(-1)).toEqual({ checked: 2_503, damaged: 0, examples: [], isDone: true });
  expect(steps.slice(0, -1).every(({ isDone }) => !isDone)).toBe(true);
  expect(await damaged()).toBe(0);
});

it("finds values changed, moved or added without the keys, secret or not, and names some", async () => {
  const { backend, store, upkeep, damaged } = await openUpkeep();
  await store.commit([...many(40), { key: "secret", value: bytes("s"), secret: true }]);
  const moved = (await backend.get("secret"))?.value;
  await backend.commit(many(25).map((change) => ({ ...change, value: bytes("forged") })));
  await backend.commit([{ key: "elsewhere", value: moved }]);
  const last = (await all(upkeep.scrub(asked))).at(-1);
  expect(last).toMatchObject({ damaged: 26, isDone: true });
  expect(last?.examples).toHaveLength(20);
  expect(last?.examples).toContain('the value of "elsewhere"');
  expect(last?.examples).toContain('the value of "k000001"');
  expect(await damaged()).toBe(26);

  await backend.commit([...many(40), { key: "elsewhere" }].map((change) => ({ key: change.key, value: undefined })));
  await all(upkeep.scrub(asked));
  expect(await damaged()).toBe(0);
});

it("does not report a value that was replaced while it was read", async () => {
  const { backend, store, upkeepOf } = await openUpkeep();
  await store.commit([{ key: "a", value: bytes("1"), secret: true }]);
  const [now] = await backend.list({ from: "a", to: "b", limit: 1 });
  if (now === undefined) throw new Error("it is there");
  // As if re-encryption had finished after this was read.
  const before = { ...now, value: Buffer.concat([Buffer.of(1, 0, 0, 0, 99), now.value.subarray(5)]) };
  const { scrub } = upkeepOf({
    async *scrub() {
      yield { entries: [before], damaged: [] };
    },
  });
  expect((await all(scrub(asked))).at(-1)).toMatchObject({ checked: 1, damaged: 0 });
});

it("stops reading on request, and does not report completion", async () => {
  const { store, upkeep } = await openUpkeep();
  await store.commit(many(5_000));
  const told = new AbortController();
  const steps: boolean[] = [];
  for await (const { isDone } of upkeep.scrub({ ...asked, signal: told.signal })) {
    steps.push(isDone);
    told.abort();
  }
  expect(steps).toEqual([false]);
});

it("re-encrypts once at a time, and continues earlier work", async () => {
  const [old, fresh] = [key("old"), key("fresh")];
  const { store, upkeep } = await openUpkeep([old, fresh]);
  await store.commit(many(2_000, true));
  const first = upkeep.reseal(asked);
  expect((await first.next()).value).toEqual({ done: 0, total: 2_000 });
  await first.next();
  await expect(upkeep.reseal(asked).next()).rejects.toMatchObject({ code: "in_use" });
  await first.return(undefined);

  const again = await all(upkeep.reseal(asked));
  expect(again[0]).toEqual({ done: 500, total: 2_000 });
  expect(again.at(-1)).toEqual({ done: 2_000, total: 2_000 });
});

it("stops re-encrypting on request", async () => {
  const { store, upkeep } = await openUpkeep();
  await store.commit(many(2_000, true));
  const told = new AbortController();
  let steps = 0;
  for await (const _ of upkeep.reseal({ ...asked, signal: told.signal })) {
    steps += 1;
    told.abort();
  }
  expect(steps).toBe(1);
});

it("stops counting when the caller has left", async () => {
  const { store, upkeep } = await openUpkeep();
  await store.commit(many(9_000, true));
  const told = new AbortController();
  const counting = upkeep.sealKeys({ countValues: true, signal: told.signal });
  told.abort();
  await expect(counting).rejects.toMatchObject({ name: "AbortError" });
});

it("F04 reports for each seal key whether the store still needs it", async () => {
  const [old, fresh, spare] = [key("old"), key("fresh"), key("spare")];
  const before = await openUpkeep([old]);
  await before.store.commit(many(3, true));
  const { store, upkeep } = await openUpkeep([fresh, old, spare], before.backend);
  await store.commit([{ key: "new", value: bytes("n"), secret: true }]);
  const keys = () => upkeep.sealKeys({ countValues: true, signal: asked.signal });
  const use = (id: string, dataKeys: number, sealedValues: number, isNeeded: boolean) => ({
    id,
    isConfigured: true,
    dataKeys,
    sealedValues,
    isNeeded,
  });
  // The old key has two data keys: one encrypts, one authenticates.
  expect(await keys()).toEqual([use("fresh", 1, 1, true), use("old", 2, 3, true), use("spare", 0, 0, false)]);
  await all(upkeep.reseal(asked));
  expect(await keys()).toEqual([use("fresh", 2, 4, true), use("old", 0, 0, false), use("spare", 0, 0, false)]);
  // And the store opens without them.
  const { store: without } = await openUpkeep([fresh], before.backend);
  expect((await without.get("k000001"))?.value[0]).toBe(1);
});

it("has a status even if the store's disk cannot be queried", async () => {
  const { upkeepOf } = await openUpkeep();
  const { status } = upkeepOf({ space: () => Promise.reject(new Error("away")) });
  expect(await status()).toMatchObject({ backend: "level", writable: true });
  expect((await status()).usedBytes).toBeUndefined();
});
