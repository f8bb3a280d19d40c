import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Level } from "level";
import { Client } from "pg";
import { createLog } from "../../src/base/log.ts";
import { createMetrics } from "../../src/base/metrics/metrics.ts";
import type { Backend } from "../../src/store/contract.ts";
import { openBackend } from "../../src/store/open.ts";
import { reseal } from "../../src/store/sealed/rewrite.ts";
import { localSealKey } from "../../src/store/sealed/seal-key.ts";
import { openSealedStore } from "../../src/store/sealed/sealed.ts";
import { findPostgres, startPostgres } from "../support/postgres/postgres.ts";
import { ms, quantile, withFolder } from "./sidecar-process.ts";

const world = {
  now: Date.now,
  log: createLog({ level: "error", format: "json", write: (line) => void process.stderr.write(line) }),
  metrics: createMetrics(),
};
const record = randomBytes(400);
const rounds = 5;
const callersTried = [1, 16, 64];

/** The cost of a durable commit, and the effect of a million connections on it. */
export async function store(asked: number): Promise<void> {
  await postgresCommits();
  await withFolder(async (folder) => {
    await levelCommits(folder);
    await whileCompacting(join(folder, "compacting"));
    await connectionsAtRest(join(folder, "many"), asked || 1_000_000);
  });
}

const open = (folder: string) => openBackend({ kind: "level", folder }, world);

/** Against LevelDB itself, with batches of 64 and one by one, in turns. */
async function levelCommits(folder: string): Promise<void> {
  const backend = await open(join(folder, "commits"));
  const raw = new Level<string, Uint8Array>(join(folder, "raw"), { valueEncoding: "view", writeBufferSize: 16 << 20 });
  const rates = new Map<string, number[]>();
  const note = (name: string, rate: number) => rates.set(name, [...(rates.get(name) ?? []), rate]);
  for (let round = 0; round < rounds; round += 1) {
    note("raw level, batches of 64", await rawBatches(raw, 64, 300));
    note("raw level, one at a time", await rawBatches(raw, 1, 600));
    for (const callers of callersTried)
      note(`${callers} callers`, await commits(backend, callers, 300 * callers ** 0.75));
  }
  await raw.close();
  await backend.close();
  const peer = median(rates.get("raw level, batches of 64") ?? []);
  say("durable commits of one 400-byte value, embedded store:");
  for (const [name, all] of rates) {
    const rate = median(all);
    say(`  ${name}: ${Math.round(rate)}/s, ${(rate / peer).toFixed(2)} x raw level in batches of 64`);
  }
}

/** Against plain inserts of as many rows a transaction, on the same server, in turns. */
async function postgresCommits(): Promise<void> {
  if (findPostgres() === undefined) {
    say("no PostgreSQL server on this machine: nothing measured of it");
    return;
  }
  const server = await startPostgres();
  const backend = await openBackend({ kind: "postgres", url: server.storeUrl("bench") }, world);
  await server.query("create table plain (key bytea primary key, value bytea, revision bigint not null)");
  const client = new Client({ host: server.folder, port: server.port, user: "postgres", database: "postgres" });
  await client.connect();
  const ratios = new Map<number, number[]>();
  const rates = new Map<number, number[]>();
  for (let round = 0; round < rounds; round += 1) {
    for (const callers of callersTried) {
      const plain = await plainInserts(client, callers, 6_400 / callers ** 0.5);
      const rate = await commits(backend, callers, 6_400 / callers);
      ratios.set(callers, [...(ratios.get(callers) ?? []), rate / plain]);
      rates.set(callers, [...(rates.get(callers) ?? []), rate]);
    }
  }
  await client.end();
  await backend.close();
  await server.stop();
  say("durable commits of one 400-byte value, PostgreSQL, beside INSERTs of as many rows a transaction:");
  for (const callers of callersTried) {
    const [rate, ratio] = [median(rates.get(callers) ?? []), median(ratios.get(callers) ?? [])];
    say(`  ${callers} callers: ${Math.round(rate)}/s, ${ratio.toFixed(2)} x INSERTs of ${callers} rows`);
  }
}

async function plainInserts(client: Client, size: number, rows: number): Promise<number> {
  const since = performance.now();
  let done = 0;
  for (; done < rows; done += size) {
    const keys = Array.from({ length: size }, () => Buffer.from(nextKey()));
    const values = keys.map(() => record);
    await client.query("insert into plain select *, 1 from unnest($1::bytea[], $2::bytea[])", [keys, values]);
  }
  return done / ((performance.now() - since) / 1_000);
}

let serial = 0;
function nextKey(): string {
  serial += 1;
  return `k${String(serial).padStart(9, "0")}`;
}

async function rawBatches(raw: Level<string, Uint8Array>, size: number, batches: number): Promise<number> {
  const since = performance.now();
  for (let i = 0; i < batches; i += 1) {
    const batch = Array.from({ length: size }, () => ({ type: "put" as const, key: nextKey(), value: record }));
    await raw.batch(batch, { sync: true });
  }
  return (size * batches) / ((performance.now() - since) / 1_000);
}

/** Each caller commits one change after another. */
export async function commits(backend: Backend, callers: number, each: number): Promise<number> {
  const since = performance.now();
  let done = 0;
  await Promise.all(
    Array.from({ length: callers }, async () => {
      for (; done < each * callers ** 0.25; ) {
        done += 1;
        await backend.commit([{ key: nextKey(), value: record }]);
      }
    }),
  );
  return done / ((performance.now() - since) / 1_000);
}

/** 16 callers with values of 8 KiB, so that LevelDB has to compact all the time. */
async function whileCompacting(folder: string): Promise<void> {
  const backend = await open(folder);
  const value = randomBytes(8 * 1024);
  const times: number[] = [];
  let most = 0;
  const looking = setInterval(async () => {
    const { values } = await world.metrics.storeTables.get();
    most = Math.max(most, values[0]?.value ?? 0);
  }, 250);
  let written = 0;
  await Promise.all(
    Array.from({ length: 16 }, async () => {
      while (written < 150_000) {
        written += 1;
        const since = performance.now();
        // Keys spread over the whole key space, so that every table overlaps every other.
        await backend.commit([{ key: randomBytes(8).toString("hex"), value }]);
        times.push(performance.now() - since);
      }
    }),
  );
  clearInterval(looking);
  await backend.close();
  const sorted = times.toSorted((a, b) => a - b);
  say(`commits while compacting (1.2 GB of random keys, 16 callers, up to ${most} tables at level 0):`);
  say(`  p50 ${ms(quantile(sorted, 0.5))}, p99 ${ms(quantile(sorted, 0.99))}, worst ${ms(quantile(sorted, 1))}`);
}

/** A connection in the store: itself, its credentials, two tags. */
function connectionChanges(i: number) {
  const id = `user-${String(i).padStart(8, "0")}`;
  const value = record.subarray(0, 180);
  return [
    { key: `connection\0dev\0keyed\0${id}`, value },
    { key: `credentials\0dev\0keyed\0${id}`, value: value.subarray(0, 80), secret: true as const },
    { key: `connection.tag\0dev\0team\0t${i % 10}\0dev\0keyed\0${id}`, value: new Uint8Array() },
    { key: `connection.tag\0dev\0end_user_id\0u${i}\0dev\0keyed\0${id}`, value: new Uint8Array() },
  ];
}

async function connectionsAtRest(folder: string, count: number): Promise<void> {
  const keys = ["old", "new"].map((id) => localSealKey({ id, secret: randomBytes(32) }));
  const [old, fresh] = keys;
  if (old === undefined || fresh === undefined) return;
  let backend = await open(folder);
  let sealed = await openSealedStore({ backend, keys: [old], world });
  for (let at = 0; at < count; at += 500) {
    await sealed.commit(Array.from({ length: Math.min(500, count - at) }, (_, i) => connectionChanges(at + i)).flat());
  }
  sealed.close();
  await backend.close();

  globalThis.gc?.();
  const before = memory();
  const since = performance.now();
  backend = await open(folder);
  sealed = await openSealedStore({ backend, keys: [fresh, old], world });
  const opened = performance.now() - since;
  globalThis.gc?.();
  const perConnection = (memory() - before) / count;
  say(`${count} connections: open after a restart in ${ms(opened)}, every table and the ledger checked;`);
  say(`  ${perConnection.toFixed(0)} bytes of memory a connection more than before it was opened`);

  const times: number[] = [];
  for (let i = 0; i < 20_000; i += 1) {
    const id = `user-${String((i * 104_729) % count).padStart(8, "0")}`;
    const asked = performance.now();
    await sealed.get(`connection\0dev\0keyed\0${id}`);
    times.push(performance.now() - asked);
  }
  const sorted = times.toSorted((a, b) => a - b);
  say(`  get, anywhere among them: p50 ${ms(quantile(sorted, 0.5))}, p99 ${ms(quantile(sorted, 0.99))}`);

  const began = performance.now();
  let last = { done: 0, total: 0 };
  for await (const progress of reseal({ backend, ...sealed })) last = progress;
  const seconds = (performance.now() - began) / 1_000;
  say(`  re-seal: ${last.done} secrets in ${seconds.toFixed(1)} s, ${Math.round(last.done / seconds)}/s`);

  const snapshot = await backend.snapshot();
  const startedAt = performance.now();
  let entries = 0;
  let bytes = 0;
  for await (const page of snapshot.pages()) {
    entries += page.length;
    for (const { key, value } of page) bytes += key.length + value.length;
  }
  await snapshot.close();
  const took = (performance.now() - startedAt) / 1_000;
  say(
    `  a snapshot read: ${entries} entries, ${Math.round(entries / took)}/s, ${(bytes / took / 1e6).toFixed(0)} MB/s`,
  );
  sealed.close();
  await backend.close();
}

/** Memory of the process itself: the kernel can reclaim mapped files of the store. */
function memory(): number {
  const [, kibibytes = "0"] = /RssAnon:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8")) ?? [];
  return Number(kibibytes) * 1024;
}

const median = (all: readonly number[]): number =>
  quantile(
    all.toSorted((a, b) => a - b),
    0.5,
  );
const say = (line: string) => void process.stdout.write(`${line}\n`);
