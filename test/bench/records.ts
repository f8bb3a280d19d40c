import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { createLog } from "../../src/base/log.ts";
import { createMetrics } from "../../src/base/metrics/metrics.ts";
import { createCollections } from "../../src/broker/collections.ts";
import {
  createSyncRecords,
  type RecordFilter,
  type RecordScope,
  type SyncRecords,
} from "../../src/broker/records/sync-records.ts";
import { ConnectionRefSchema, ConnectionSchema } from "../../src/gen/latchkey/v1/connection_pb.ts";
import type { Change } from "../../src/store/contract.ts";
import { openBackend } from "../../src/store/open.ts";
import { localSealKey } from "../../src/store/sealed/seal-key.ts";
import { openSealedStore, type SealedStore } from "../../src/store/sealed/sealed.ts";
import { ms, quantile, withFolder } from "./sidecar-process.ts";

const world = {
  now: Date.now,
  log: createLog({ level: "error", format: "json", write: (line) => void process.stderr.write(line) }),
  metrics: createMetrics(),
};
const rounds = 7;
const batches = [100, 1_000];

/**
 * The cost of saving records, compared to a store commit of the same shape; of listing them; and of finding deleted
 * ones.
 */
export async function records(asked: number): Promise<void> {
  await withFolder(async (folder) => {
    const opened = await open(join(folder, "many"));
    await saves(opened);
    await listing(opened.records, asked || 1_000_000);
    await detection(opened.records, 100_000);
    await opened.close();
  });
}

interface Opened {
  readonly store: SealedStore;
  readonly records: SyncRecords;
  close(): Promise<void>;
}

const ref = create(ConnectionRefSchema, { environment: "dev", integration: "crm", id: "ada" });
const named = (model: string): RecordScope => ({ connection: ref, model, variant: "" });

async function open(folder: string): Promise<Opened> {
  const backend = await openBackend({ kind: "level", folder }, world);
  const store = await openSealedStore({
    backend,
    keys: [localSealKey({ id: "k", secret: randomBytes(32) })],
    world,
  });
  const collections = createCollections(store, { fieldsOf: () => [] });
  const connection = create(ConnectionSchema, { ref, number: 1, provider: "crm" });
  await store.commit(collections.connections.change({ before: undefined, after: connection }));
  const connections = {
    async get() {
      const found = await collections.connections.get(ref.environment, ref.integration, ref.id);
      if (found === undefined) throw new Error("it was just put there");
      return found;
    },
  };
  return {
    store,
    records: createSyncRecords({ store, collections, connections, world }),
    async close() {
      store.close();
      await backend.close();
    },
  };
}

/** About 500 bytes of JSON. */
const record = (i: number, version = 0) => ({
  id: `contact-${String(i).padStart(9, "0")}`,
  name: `Person ${i}`,
  email: `person.${i}@example.com`,
  version,
  address: { street: "12 Example Street", city: "Exampleton", country: "Exampleland", postcode: "EX4 4PL" },
  tags: ["customer", "newsletter", "spring"],
  notes: "x".repeat(240),
});
const few = (from: number, count: number, version?: number) =>
  Array.from({ length: count }, (_, i) => record(from + i, version));

async function saves({ store, records }: Opened): Promise<void> {
  const bytes = JSON.stringify(record(1)).length;
  say(`records of ${bytes} bytes saved, embedded store, beside sealed commits of as many keys and bytes:`);
  let from = 0;
  for (const size of batches) {
    const each = Math.ceil(4_000 / size);
    const rates = new Map<string, number[]>();
    const note = (name: string, rate: number) => rates.set(name, [...(rates.get(name) ?? []), rate]);
    for (let round = 0; round < rounds; round += 1) {
      note("commits", await timed(size, each, () => commitOf(store, size, bytes)));
      const at = from;
      const batchesOf = (version: number) => Array.from({ length: each }, (_, i) => few(at + i * size, size, version));
      const [fresh, changed] = [batchesOf(0), batchesOf(1)];
      const saveAll = (some: typeof fresh) => timed(size, each, (i) => records.save(named("Saved"), some[i] ?? []));
      note("new", await saveAll(fresh));
      note("changed", await saveAll(changed));
      note("unchanged", await saveAll(changed));
      from += size * each;
    }
    const peers = rates.get("commits") ?? [];
    for (const [name, all] of rates) {
      const ratio = median(all.map((rate, i) => rate / (peers[i] ?? 1)));
      say(`  batches of ${size}, ${name}: ${Math.round(median(all))}/s, ${ratio.toFixed(2)} x commits`);
    }
  }
}

async function timed(size: number, each: number, act: (i: number) => Promise<unknown>): Promise<number> {
  const since = performance.now();
  for (let i = 0; i < each; i += 1) await act(i);
  return (size * each) / ((performance.now() - since) / 1_000);
}

let serial = 0;
let last = 0;
/** Writes for each record its content and its index entry, both encrypted, and updates the row of the model. */
async function commitOf(store: SealedStore, size: number, bytes: number): Promise<void> {
  const content = randomBytes(bytes + 70);
  const place = content.subarray(0, 52);
  const own = Array.from({ length: size }, (): Change[] => {
    serial += 1;
    const at = String(serial).padStart(16, "0");
    const digest = randomBytes(16).toString("base64url");
    return [
      { key: `bench\0mf3k2j1h0g0000a1b2c3d4\0${at}`, value: content, secret: true },
      { key: `bench-place\0mf3k2j1h0g0000a1b2c3d4\0${digest}`, value: place, secret: true },
    ];
  });
  const model: Change = { key: "bench-model\x001\0Saved\0base", value: place, expect: last };
  last = await store.commit([model, ...own.flat()]);
}

const all: RecordFilter = {
  ...{ cursor: "", limit: 100, actions: [], modifiedAfterMs: undefined, ids: [] },
  maxBytes: Number.POSITIVE_INFINITY,
};

async function listing(records: SyncRecords, count: number): Promise<void> {
  const of = named("Listed");
  const cursors: string[] = [];
  const since = performance.now();
  for (let at = 0; at < count; at += 1_000) await records.save(of, few(at, Math.min(1_000, count - at)));
  say(`${count} records: saved in ${((performance.now() - since) / 1_000).toFixed(0)} s in batches of 1,000`);
  const began = performance.now();
  for (let cursor = ""; ; ) {
    const page = await records.list(of, { ...all, limit: 10_000, cursor });
    cursors.push(...page.records.flatMap(({ cursor: at }, i) => (i % 1_000 === 0 ? [at] : [])));
    cursor = page.next;
    if (cursor === "") break;
  }
  const seconds = (performance.now() - began) / 1_000;
  say(`  all listed in pages of 10,000: ${Math.round(count / seconds)}/s`);
  const third = Math.floor(cursors.length / 3);
  for (const [name, some] of [
    ["at the beginning", cursors.slice(0, third)],
    ["in the middle", cursors.slice(third, -third)],
    ["at the end", cursors.slice(-third)],
  ] as const) {
    const times: number[] = [];
    for (let i = 0; i < 1_000; i += 1) {
      const asked = performance.now();
      await records.list(of, { ...all, cursor: some[(i * 7_919) % some.length] ?? "" });
      times.push(performance.now() - asked);
    }
    const sorted = times.toSorted((a, b) => a - b);
    say(`  a page of 100 ${name}: p50 ${ms(quantile(sorted, 0.5))}, p99 ${ms(quantile(sorted, 0.99))}`);
  }
}

/** A full run that brings all but a tenth. */
async function detection(records: SyncRecords, count: number): Promise<void> {
  const of = named("Detected");
  for (let at = 0; at < count; at += 1_000) await records.save(of, few(at, 1_000));
  const run = await records.detectDeletes(of);
  let since = performance.now();
  for (let at = 0; at < count; at += 1_000) run.seen(few(at, 1_000).filter((_, i) => i % 10 > 0));
  const noted = performance.now() - since;
  since = performance.now();
  const deleted = await run.finish();
  const took = performance.now() - since;
  say(
    `what is gone of ${count}: ${deleted} found and deleted in ${ms(took)}; to note what is there took ${ms(noted)},`,
  );
  say(`  and ${(run.bytes / (count - deleted)).toFixed(1)} bytes each`);
}

const median = (some: readonly number[]): number =>
  quantile(
    some.toSorted((a, b) => a - b),
    0.5,
  );
const say = (line: string) => void process.stdout.write(`${line}\n`);
