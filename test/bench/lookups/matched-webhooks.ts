import { hash } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { createLog } from "../../../src/base/log.ts";
import { createMetrics } from "../../../src/base/metrics/metrics.ts";
import { createCollections } from "../../../src/broker/collections.ts";
import { connectionLookups } from "../../../src/broker/connections/lookup/connection-lookups.ts";
import { lookupRowKeys } from "../../../src/broker/connections/lookup/lookup-rows.ts";
import { LookupRowsSchema } from "../../../src/gen/latchkey/stored/v1/stored_pb.ts";
import { keyOf } from "../../../src/store/keys.ts";
import { parseStoreLocation } from "../../../src/store/location.ts";
import { openBackend } from "../../../src/store/open.ts";
import { localSealKey } from "../../../src/store/sealed/seal-key.ts";
import { openSealedStore } from "../../../src/store/sealed/sealed.ts";
import { findPostgres, startPostgres } from "../../support/postgres/postgres.ts";
import { openLine } from "../proxy-load.ts";
import { cpuSeconds, loadAverage } from "../proxy-process.ts";
import { createTable } from "../proxy-table.ts";
import { deployed, quantile, secretKey, startBenchSidecar, withFolder } from "../sidecar-process.ts";

const rounds = 3;
const senders = 16;
const webhooks = 6_000;
/** As many URIs are asked for again and again. */
const hot = 64;
const named = { environment: "dev", integration: "calendar" };
const field = "metadata.calendarWatchResourceUris";
const uriOf = (n: number): string => `https://calendar.example/v3/calendars/user-${n}/events?alt=json`;
const idOf = (n: number): string => hash("sha256", String(n)).slice(0, 32);

/** Webhooks that are acknowledged, with the index in memory and with lookups in the store. */
export async function matchedWebhooks(asked: number): Promise<void> {
  const count = asked || 200_000;
  await withFolder(async (folder) => measure(`level:${folder}/store`, `LevelDB, ${count} URIs`, count));
  if (findPostgres() === undefined) return;
  const server = await startPostgres();
  try {
    await measure(server.storeUrl("bench"), `PostgreSQL, ${count} URIs`, count);
  } finally {
    await server.stop();
  }
}

async function measure(store: string, name: string, count: number): Promise<void> {
  const path = await setUp(store);
  await fill(store, count);
  const table = createTable(["acknowledged/s", "p50 ms", "p99 ms", "CPU µs each", "MiB"]);
  for (let round = 0; round < rounds; round += 1) {
    for (const [where, limit] of Object.entries({ memory: "128", store: "0" })) {
      const sidecar = await startSidecar(store, limit);
      const port = Number(new URL(sidecar.data).port);
      // The program is not compiled yet.
      await send({ port, path, count: webhooks / 2, among: hot });
      for (const [which, among] of Object.entries({ any: count, hot })) {
        const before = cpuSeconds(sidecar.pid);
        const { perSecond, p50Ms, p99Ms } = await send({ port, path, count: webhooks, among });
        const cpu = ((cpuSeconds(sidecar.pid) - before) / webhooks) * 1e6;
        table.note(`in ${where}, ${which} URIs`, [perSecond, p50Ms, p99Ms, cpu, sidecar.ownMiB()]);
      }
      await sidecar.stop();
    }
  }
  say(`\n${name}, ${senders} senders; load average ${loadAverage()}:`);
  say(table.text({ peers: [], compared: "acknowledged/s" }));
}

const startSidecar = (store: string, limit: string) =>
  startBenchSidecar({
    folder: "",
    env: {
      LATCHKEY_STORE: store,
      LATCHKEY_ADMIN_KEY: "lk_bench-admin-key-of-the-control-plane",
      LATCHKEY_LOOKUP_MEMORY: limit,
      ...deployed,
    },
  });

/** Creates the integration, which forwards nothing: what is measured is the way in. Returns its webhook address. */
async function setUp(store: string): Promise<string> {
  const sidecar = await startSidecar(store, "128");
  const headers = { authorization: `Bearer ${secretKey}`, "content-type": "application/json" };
  const credentials = { type: "OAUTH2", client_id: "id", client_secret: "secret" };
  const body = JSON.stringify({ unique_key: named.integration, provider: "calendar", credentials });
  const made = await fetch(`${sidecar.data}/integrations`, { method: "POST", headers, body });
  if (!made.ok) throw new Error(`the integration was not made: ${await made.text()}`);
  const shown = await fetch(`${sidecar.data}/integrations/calendar?include=webhook`, { headers });
  const { data } = (await shown.json()) as { readonly data: { readonly webhook_url: string } };
  await sidecar.stop();
  return new URL(data.webhook_url).pathname;
}

/** Stores lookups of this many connections with their rows, and that all rows are written. */
async function fill(location: string, count: number): Promise<void> {
  const log = createLog({ level: "error", format: "json", write: (line) => void process.stderr.write(line) });
  const world = { now: Date.now, log, metrics: createMetrics() };
  const parsed = parseStoreLocation(location);
  if (parsed === undefined) throw new Error("the store has an address");
  const backend = await openBackend(parsed, world);
  const keys = [localSealKey({ id: "bench", secret: Buffer.alloc(32, 1) })];
  const store = await openSealedStore({ backend, keys, world });
  const { lookupRows } = createCollections(store, { fieldsOf: () => [] });
  for (let from = 0; from < count; from += 500) {
    const some = Array.from({ length: Math.min(500, count - from) }, (_, i) => from + i);
    await store.commit(some.flatMap(lookupsOf));
  }
  await store.commit(lookupRows.added(create(LookupRowsSchema, { bytes: 1n })));
  store.close();
  await backend.close();
}

function lookupsOf(n: number) {
  const ref = { $typeName: "latchkey.v1.ConnectionRef" as const, ...named, id: idOf(n) };
  const lookups = connectionLookups(
    { ref, metadata: { calendarWatchResourceUris: [uriOf(n)] }, connectionConfig: {} },
    [field],
  );
  const own = keyOf(named.environment, named.integration, ref.id);
  const rows = lookupRowKeys(own, lookups ?? new Uint8Array());
  return [
    { key: `connection.lookups\0${own}`, value: lookups },
    ...rows.map((key) => ({ key, value: new Uint8Array() })),
  ];
}

let messages = 0;
interface Sending {
  readonly port: number;
  readonly path: string;
  readonly count: number;
  /** The number of URIs to choose from. */
  readonly among: number;
}

async function send({ port, path, count, among }: Sending) {
  const lines = await Promise.all(Array.from({ length: senders }, () => openLine(port)));
  const times: number[] = [];
  let left = count;
  const since = performance.now();
  await Promise.all(
    lines.map(async (line) => {
      while (left > 0) {
        left -= 1;
        messages += 1;
        const uri = uriOf(Math.floor(Math.random() * among));
        const askedMs = performance.now();
        await line.ask(
          [
            `POST ${path} HTTP/1.1`,
            "host: 127.0.0.1",
            `x-cal-channel-id: channel-${messages % 64}`,
            "x-cal-resource-id: resource-1",
            `x-cal-resource-uri: ${uri}`,
            "x-cal-resource-state: exists",
            `x-cal-message-number: ${messages}`,
            "content-length: 0\r\n\r\n",
          ].join("\r\n"),
        );
        times.push(performance.now() - askedMs);
      }
    }),
  );
  const perSecond = count / ((performance.now() - since) / 1_000);
  for (const { socket } of lines) socket.destroy();
  const sorted = times.toSorted((a, b) => a - b);
  return { perSecond, p50Ms: quantile(sorted, 0.5), p99Ms: quantile(sorted, 0.99) };
}

const say = (line: string) => void process.stdout.write(`${line}\n`);
