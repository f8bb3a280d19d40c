import type { JsonObject } from "@bufbuild/protobuf";
import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { createCollections } from "../../../src/broker/collections.ts";
import { createSyncRecords, dataIn, type SyncRecords } from "../../../src/broker/records/sync-records.ts";
import { type Connection, ConnectionSchema } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import type { Backend } from "../../../src/store/contract.ts";
import { localSealKey } from "../../../src/store/sealed/seal-key.ts";
import { openSealedStore } from "../../../src/store/sealed/sealed.ts";
import { postgresForFile } from "../../support/postgres/stores.ts";
import { below, faultSeed, seeded } from "../../support/runner/seeded.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { refOf } from "./open-broker.ts";
import { contacts, everything } from "./records.ts";
import { openTestStore, testWorld } from "./world.ts";

const of = contacts();
const ids = 60;

/** Two replicas that each save half of the ids, so that the test knows the last change of each. */
async function openReplicas(backends: readonly Backend[]): Promise<readonly SyncRecords[]> {
  const world = testWorld();
  const keys = [localSealKey({ id: "test", secret: Buffer.alloc(32, 7) })];
  const replicas: SyncRecords[] = [];
  for (const backend of backends) {
    const store = await openSealedStore({ backend, keys, world });
    const collections = createCollections(store, { fieldsOf: () => [] });
    const after = create(ConnectionSchema, { ref: refOf("ada"), number: 7, provider: "google-calendar" });
    if (replicas.length === 0) await store.commit(collections.connections.change({ before: undefined, after }));
    const get = async () => {
      const found = await collections.connections.get("dev", "calendar", "ada");
      if (found === undefined) throw new Error("it was just put there");
      return found satisfies { readonly value: Connection };
    };
    replicas.push(createSyncRecords({ store, collections, connections: { get }, world }));
  }
  return replicas;
}

/** The state of a reader that only follows cursors. */
function startReader(records: SyncRecords, random: () => number) {
  const state = new Map<string, JsonObject>();
  let cursor = "";
  let places = 0;

  async function readOn(): Promise<boolean> {
    const page = await records.list(of, { ...everything, limit: 1 + below(random, 20), cursor });
    for (const { record } of page.records) {
      if (record.lastAction === "DELETED") state.delete(record.id);
      else state.set(record.id, dataIn(record));
    }
    places += page.records.length;
    cursor = page.records.at(-1)?.cursor ?? cursor;
    return page.next !== "";
  }
  return {
    state,
    readOn,
    get places() {
      return places;
    },
  };
}

/** Saves, updates and deletes at random. */
function startWriter(records: SyncRecords, random: () => number, own: (id: number) => boolean) {
  const state = new Map<string, JsonObject>();
  const some = (most: number) =>
    [...new Set(Array.from({ length: 1 + below(random, most) }, () => below(random, ids)))].filter(own);
  const steps: readonly (() => Promise<void>)[] = [
    async () => {
      const batch = some(20).map((id) => ({ id: `r${id}`, n: below(random, 3) }));
      await records.save(of, batch);
      for (const record of batch) state.set(record.id, record);
    },
    async () => {
      const batch = some(10).map((id) => ({ id: `r${id}`, more: { [`k${below(random, 2)}`]: below(random, 3) } }));
      await records.update(of, batch);
      for (const { id, more } of batch) {
        const before = state.get(id);
        const merged = { ...Object(before?.["more"]), ...more };
        if (before !== undefined) state.set(id, { ...before, more: merged });
      }
    },
    async () => {
      const gone = some(6).map((id) => `r${id}`);
      await records.delete(of, gone);
      for (const id of gone) state.delete(id);
    },
  ];
  return { state, step: () => steps[below(random, steps.length)]?.() };
}

/** JSON with the same keys in another order counts as equal. */
const sorted = (state: ReadonlyMap<string, JsonObject>) => new Map([...state].sort(([a], [b]) => (a < b ? -1 : 1)));

async function follows(backends: readonly [Backend, Backend], rounds: number): Promise<void> {
  const seed = faultSeed();
  const random = seeded(seed);
  const replicas = await openReplicas(backends);
  const writers = replicas.map((records, i) => startWriter(records, seeded(seed + i + 1), (id) => id % 2 === i));
  const readers = replicas.map((records) => startReader(records, random));
  let over = false;
  const reading = readers.map(async (reader) => {
    while (!over) {
      // A reader at the end waits a little.
      if (!(await reader.readOn())) await new Promise((resolve) => setImmediate(resolve));
    }
    while (await reader.readOn());
  });
  await Promise.all(
    writers.map(async (writer) => {
      for (let i = 0; i < rounds; i += 1) await writer.step();
    }),
  );
  over = true;
  await Promise.all(reading);
  const expected = sorted(new Map(writers.flatMap(({ state }) => [...state])));
  for (const reader of readers) {
    expect({ seed, state: sorted(reader.state) }).toEqual({ seed, state: expected });
    expect(reader.places).toBeGreaterThan(rounds);
  }
  const [{ count } = { count: -1 }] = (await replicas[0]?.counts(of.connection)) ?? [];
  expect({ seed, count }).toEqual({ seed, count: expected.size });
}

it("a reader that follows cursors misses no change of one process", async () => {
  const backend = await openTestStore(testWorld());
  await follows([backend, backend], 150);
});

describe.skipIf(lacks("postgres"))("of replicas", () => {
  const file = postgresForFile();

  it("a reader that follows cursors misses no change of two concurrent writers", async () => {
    const schema = file.newSchema();
    const first = (await file.open({ schema })).store;
    await follows([first, (await file.open({ schema })).store], 60);
  });
});
