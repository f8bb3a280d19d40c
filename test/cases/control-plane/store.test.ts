import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { equals } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { createLog } from "../../../src/base/log.ts";
import { createMetrics } from "../../../src/base/metrics/metrics.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { BackupManifestSchema, type BackupResponse, StoreService } from "../../../src/gen/latchkey/v1/store_pb.ts";
import { verifyBackup } from "../../../src/store/backup/backup.ts";
import { openLevelStore } from "../../../src/store/level/level.ts";
import { startStopwatch } from "../../support/runner/stopwatch.ts";
import {
  createIntegrations,
  sealKey,
  startTestSidecar,
  type TestSidecar,
  temporaryFolder,
} from "../../support/sidecar/harness.ts";
import { endOf, foreignClient, type Plain } from "./foreign.ts";

async function* each<T>(items: Iterable<T>): AsyncGenerator<T> {
  yield* items;
}

async function all<T>(steps: AsyncIterable<T>): Promise<T[]> {
  const seen: T[] = [];
  for await (const step of steps) seen.push(step);
  return seen;
}

const chunksOf = (pieces: readonly BackupResponse[]) =>
  pieces.flatMap(({ piece }) => (piece.case === "chunk" ? [piece.value] : []));

interface Furnishing {
  readonly folder?: string;
  /** Size of each connection on disk and on the wire; random bytes, so that compression has no effect. */
  readonly bytes?: number;
}

/** Starts a sidecar with this number of connections. */
async function furnished(count: number, { folder, bytes = 1_000 }: Furnishing = {}): Promise<TestSidecar> {
  const running = await startTestSidecar(folder === undefined ? {} : { folder });
  await createIntegrations(running);
  const item = (i: number) => ({
    environment: "dev",
    integration: "keyed",
    id: `c${i}`,
    credentials: { kind: { case: "apiKey" as const, value: { apiKey: `key-of-c${i}` } } },
    metadata: { padding: randomBytes(bytes / 2).toString("hex") },
  });
  const atOnce = Math.floor(1_000_000 / bytes);
  for (let i = 0; i < count; i += atOnce) {
    const connections = Array.from({ length: Math.min(atOnce, count - i) }, (_, j) => item(i + j));
    await running.client(ConnectionService).batchImportConnections({ connections });
  }
  return running;
}

/** The folder of a sidecar that has stopped, with something done to the store behind its back. */
async function tampered(folder: string, change: (value: Uint8Array) => Uint8Array): Promise<void> {
  const log = createLog({ level: "error", format: "json", write: () => {} });
  const store = await openLevelStore({ folder: join(folder, "store"), log, metrics: createMetrics() });
  const [first] = await store.list({ from: "connection\0", to: "connection\x01", limit: 1 });
  if (first === undefined) throw new Error("there is a connection");
  await store.commit([{ key: first.key, value: change(first.value) }]);
  await store.close();
}

it("shows the kind of store, its size, and the free space", async () => {
  const { client } = await startTestSidecar();
  const status = await client(StoreService).getStoreStatus({});
  expect(status).toMatchObject({ backend: "level", writable: true, reason: "", format: 2 });
  expect(status.storeId).toMatch(/^[0-9a-f-]{36}$/);
  expect(status.revision).toBeGreaterThan(0n);
  expect(status.sizeBytes).toBeGreaterThan(0n);
  expect(status.freeBytes).toBeGreaterThan(status.sizeBytes ?? 0n);
});

it("hands out a backup in chunks that no client finds too large, and the manifest when it is whole", async () => {
  const { client, logged } = await furnished(200);
  const { storeId, revision, lastBackup: none } = await client(StoreService).getStoreStatus({});
  expect(none).toBeUndefined();
  const pieces = await all(client(StoreService).backup({}));
  const chunks = chunksOf(pieces);
  expect(chunks.length).toBeGreaterThan(3);
  expect(Math.max(...chunks.map(({ length }) => length))).toBe(65_536);
  const manifest = await verifyBackup(each(chunks));
  const last = pieces.at(-1)?.piece;
  expect(last?.case === "manifest" && equals(BackupManifestSchema, last.value, manifest)).toBe(true);
  expect(manifest).toMatchObject({ storeId, revision, keyIds: ["test"] });
  const { lastBackup } = await client(StoreService).getStoreStatus({});
  const bytes = BigInt(chunks.reduce((sum, { length }) => sum + length, 0));
  expect(lastBackup).toMatchObject({ at: manifest.createdAt, revision, bytes, actor: "admin-key" });
  expect(logged.join("")).toContain(`"actor":"admin-key","revision":${revision},"msg":"backup started"`);
});

it("waits for a slow reader, and loses nothing", async () => {
  const { control } = await furnished(300);
  const stream = foreignClient(control).serverStream("StoreService/Backup", {});
  const chunks: Uint8Array[] = [];
  stream.on("data", ({ chunk }: Plain) => {
    if (chunk === undefined) return;
    chunks.push(chunk);
    stream.pause();
    setTimeout(() => stream.resume(), 50);
  });
  await once(stream, "end");
  expect((await verifyBackup(each(chunks))).count).toBeGreaterThan(600n);
});

it("ends a backup whose caller has left", async () => {
  const { control, metric } = await furnished(200, { bytes: 100_000 });
  const stream = foreignClient(control).serverStream("StoreService/Backup", {});
  stream.on("error", () => {});
  await once(stream, "data");
  stream.pause();
  await sleep(100);
  stream.cancel();
  const canceled = 'latchkey_rpc_calls_total{method="latchkey.v1.StoreService/Backup",code="Canceled"}';
  await expect.poll(() => metric(canceled)).toBe(1);
});

it("stops during a backup, and reports that it is incomplete", async () => {
  const { control, stop } = await furnished(200, { bytes: 100_000 });
  const stream = foreignClient(control).serverStream("StoreService/Backup", {});
  const chunks: Uint8Array[] = [];
  stream.on("data", ({ chunk }: Plain) => {
    if (chunk !== undefined) chunks.push(chunk);
    stream.pause();
  });
  const ended = endOf(stream);
  await sleep(100);
  const elapsed = startStopwatch();
  const stopped = stop();
  stream.resume();
  stream.on("data", () => stream.resume());
  expect((await ended).code).toBe(Code.Unavailable);
  await stopped;
  expect(elapsed.ms).toBeLessThan(5_000);
  await expect(verifyBackup(each(chunks))).rejects.toThrow(/ends too early/);
});

it("detects a value that was changed on disk, and counts it in the metrics", async () => {
  const folder = await temporaryFolder();
  await (await furnished(3, { folder })).stop();
  const before = await startTestSidecar({ folder });
  expect((await all(before.client(StoreService).scrub({}))).at(-1)).toMatchObject({ damaged: 0n, done: true });
  expect(await before.metric("latchkey_store_damaged")).toBe(0);
  await before.stop();

  await tampered(folder, (value) => value.map((byte, i) => (i === value.length - 1 ? byte ^ 1 : byte)));
  const { client, metric, logged } = await startTestSidecar({ folder });
  const last = (await all(client(StoreService).scrub({}))).at(-1);
  expect(last).toMatchObject({ damaged: 1n, done: true });
  expect(last?.examples).toEqual([expect.stringMatching(/^the value of "connection\\u0000dev/)]);
  expect(await metric("latchkey_store_damaged")).toBe(1);
  expect(logged.join("")).toContain('"msg":"the store is damaged"');
});

it("S05 finds a file of the store in which a bit has flipped", async () => {
  const folder = await temporaryFolder();
  await (await furnished(50, { folder })).stop();
  // This start writes the log's content into a table.
  const { client, metric } = await startTestSidecar({ folder });
  const tables = (await readdir(join(folder, "store"))).filter((name) => name.endsWith(".ldb"));
  const [table = ""] = tables;
  const path = join(folder, "store", table);
  const bytes = await readFile(path);
  const middle = Math.floor(bytes.length / 2);
  bytes[middle] = (bytes[middle] ?? 0) ^ 1;
  await writeFile(path, bytes);
  const last = (await all(client(StoreService).scrub({}))).at(-1);
  expect(last?.examples).toContain(`the file ${table}`);
  expect(await metric("latchkey_store_damaged")).toBe(Number(last?.damaged));
  // A backup that skipped damaged entries would be incomplete without an error.
  await expect(all(client(StoreService).backup({}))).rejects.toThrow(/damaged/);
});

it("F04 releases an old seal key once everything is re-encrypted, and requires it before", async () => {
  const folder = await temporaryFolder();
  const fresh = `fresh:${randomBytes(32).toString("base64")}`;
  await (await furnished(600, { folder })).stop();
  const rotated = await startTestSidecar({ folder, env: { LATCHKEY_SEAL_KEYS: `${fresh},${sealKey}` } });
  const keys = async ({ client }: TestSidecar) =>
    (await client(StoreService).listSealKeys({ countValues: true })).keys.map(
      ({ id, dataKeys, sealedValues, needed }) => `${id} ${dataKeys} ${sealedValues} ${needed}`,
    );
  // The seal keys of each connection's credentials.
  expect(await keys(rotated)).toEqual(["fresh 1 0 true", "test 2 600 true"]);
  await rotated.stop();
  const early = startTestSidecar({ folder, env: { LATCHKEY_SEAL_KEYS: fresh } });
  await expect(early).rejects.toThrow(/"test".*"fresh"/);

  const again = await startTestSidecar({ folder, env: { LATCHKEY_SEAL_KEYS: `${fresh},${sealKey}` } });
  const steps = await all(again.client(StoreService).reseal({}));
  expect(steps.at(-1)).toMatchObject({ done: 600n, total: 600n });
  expect(await keys(again)).toEqual(["fresh 2 600 true", "test 0 0 false"]);
  await again.stop();
  const { rest } = await startTestSidecar({ folder, env: { LATCHKEY_SEAL_KEYS: fresh } });
  const { body } = await rest("GET", "/connections/c599?provider_config_key=keyed");
  expect(body.credentials.apiKey).toBe("key-of-c599");
});

it("counts what depends on a seal key only on request", async () => {
  const { client } = await startTestSidecar();
  const { keys } = await client(StoreService).listSealKeys({});
  expect(keys).toMatchObject([{ id: "test", configured: true, dataKeys: 2, needed: true }]);
  expect(keys[0]?.sealedValues).toBeUndefined();
});
