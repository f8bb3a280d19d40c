import { spawnSync } from "node:child_process";
import { hash, randomBytes, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { PerformanceObserver } from "node:perf_hooks";
import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createLog } from "../../src/base/log.ts";
import { createMetrics } from "../../src/base/metrics/metrics.ts";
import { createCollections } from "../../src/broker/collections.ts";
import { connectionLookups, lookupDigest } from "../../src/broker/connections/lookup/connection-lookups.ts";
import { openLookupIndex } from "../../src/broker/connections/lookup/lookup-index.ts";
import { createLookupRowsState } from "../../src/broker/connections/lookup/lookup-rows-state.ts";
import { createResourceIndex, type ResourceIndex } from "../../src/broker/connections/lookup/resource-index.ts";
import { keyOf } from "../../src/store/keys.ts";
import { openBackend } from "../../src/store/open.ts";
import { localSealKey } from "../../src/store/sealed/seal-key.ts";
import { openSealedStore } from "../../src/store/sealed/sealed.ts";
import { ms, quantile, withFolder } from "./sidecar-process.ts";

/**
 * The cost of a million watched resources: one for each of a million connections, and ten for each of a hundred
 * thousand. Measured are the index, a Map of strings and, as a baseline to subtract, a run that creates the data and
 * keeps none. Each runs in its own process.
 */
export async function match(asked: number): Promise<void> {
  const count = asked || 1_000_000;
  for (const each of [1, 10]) {
    say(`${count} resources, ${each} a connection:`);
    const bare = measured("nothing", count, each);
    const map = measured("map", count, each);
    const index = measured("index", count, each);
    const row = (name: string, bytes: number) =>
      say(`  ${name}: ${perOne(bytes - bare.bytes, count)} bytes a resource`);
    row("a Map beside it", map.bytes);
    row(`the index (arrays ${perOne(index.arrays, count)})`, index.bytes);
    for (const line of index.lines) say(`  ${line}`);
  }
  await withFolder((folder) => rebuild(join(folder, "store"), count));
}

interface Measured {
  /** The process's own memory. */
  readonly bytes: number;
  readonly arrays: number;
  readonly lines: readonly string[];
}

function measured(what: string, count: number, each: number): Measured {
  // A young generation as small as can be: how far V8 lets it grow differs by 60 MB from run to run.
  const args = [
    "--expose-gc",
    "--max-semi-space-size=1",
    fileURLToPath(import.meta.url),
    what,
    String(count),
    String(each),
  ];
  const { status, stdout } = spawnSync(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  if (status !== 0) throw new Error("a process of the bench failed");
  return JSON.parse(stdout.toString()) as Measured;
}

const field = "metadata.calendarWatchResourceUris";
const where = { environment: "prod", integration: "google-calendar", field };
/** Resource URIs in Google's form. */
const uriOf = (n: number): string =>
  `https://www.googleapis.com/calendar/v3/calendars/user-${n}%40example.com/events?alt=json`;
const urisOf = (connection: number, each: number) =>
  Array.from({ length: each }, (_, i) => uriOf(connection * each + i));

/** The lookup digests of a provider's connection with this number of watched resources. */
const filedUnder = (connection: number, each: number): Uint8Array =>
  connectionLookups(
    {
      ref: { $typeName: "latchkey.v1.ConnectionRef", environment: "prod", integration: "google-calendar", id: "" },
      metadata: { calendarWatchResourceUris: urisOf(connection, each) },
      connectionConfig: {},
    },
    [field],
  ) ?? new Uint8Array();

async function measure(what: string, count: number, each: number): Promise<Measured> {
  const connections = Math.floor(count / each);
  const map = new Map<string, string[]>();
  const index = createResourceIndex();
  const collections: number[] = [];
  const observer = new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) collections.push(duration);
  });
  observer.observe({ entryTypes: ["gc"] });
  const took = new Float64Array(connections);
  let unused = 0;
  for (let n = 0; n < connections; n += 1) {
    const owner = ownerOf(n);
    const digests = filedUnder(n, each);
    const since = performance.now();
    if (what === "index") index.put(owner, digests);
    // Strings as JSON parsing yields them: flat, each a copy of its own.
    else if (what === "map") for (const uri of urisOf(n, each)) map.set(Buffer.from(uri).toString(), [owner.id]);
    else unused += digests.length;
    took[n] = performance.now() - since;
    // Lets the observers run.
    if (n % 10_000 === 0) await setImmediate();
  }
  const bytes = await atRest();
  observer.disconnect();
  if (what !== "index") return { bytes, arrays: map.size + unused, lines: [] };
  const slowest = took.toSorted().reverse();
  const putMs = took.reduce((sum, one) => sum + one, 0);
  const lines = [
    `put: ${perSecond(connections, putMs)} connections/s, ${perSecond(count, putMs)} resources/s`,
    `longest puts while it grew: ${[0, 1, 2].map((i) => ms(slowest[i] ?? 0)).join(", ")}, p99.9 ${ms(slowest[Math.floor(connections / 1_000)] ?? 0)}; longest collection of garbage meanwhile ${ms(Math.max(0, ...collections))}`,
    lookUps("found", index, () => uriOf(Math.floor(Math.random() * count))),
    lookUps("not found", index, () => uriOf(count + Math.floor(Math.random() * count))),
  ];
  const arrays = index.bytes;
  const changed = Math.min(connections - 1, 100_000);
  const since = performance.now();
  for (let n = 0; n < changed; n += 1) index.remove(ownerOf(n));
  lines.push(`remove: ${perSecond(changed, performance.now() - since)} connections/s`);
  for (let n = 0; n < changed; n += 1) index.put(ownerOf(n), filedUnder(connections + n, each));
  lines.push(`as many others in their place: ${index.bytes - arrays} bytes more`);
  return { bytes, arrays, lines };
}

/** A UUID that is the same for a number, so that none has to be kept. */
function ownerOf(n: number) {
  const hex = hash("sha256", String(n)).slice(0, 32);
  const id = `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
  return { environment: "prod", integration: "google-calendar", id };
}

/** The time includes the digest; the text is flat, like one from the network. */
function lookUps(name: string, index: ResourceIndex, next: () => string): string {
  const uris = Array.from({ length: 200_000 }, () => Buffer.from(next()).toString());
  const times = new Float64Array(uris.length);
  let found = 0;
  for (const [i, uri] of uris.entries()) {
    const since = performance.now();
    const digest = lookupDigest(where, uri);
    if (digest !== undefined) found += index.match(digest).length;
    times[i] = performance.now() - since;
  }
  const sorted = [...times.toSorted()].map((one) => one * 1_000);
  return `look-up, ${name} (${found}): p50 ${micro(quantile(sorted, 0.5))}, p99 ${micro(quantile(sorted, 0.99))}`;
}

async function rebuild(folder: string, count: number): Promise<void> {
  const world = {
    now: Date.now,
    log: createLog({ level: "error", format: "json", write: (line) => void process.stderr.write(line) }),
    metrics: createMetrics(),
  };
  const keys = [localSealKey({ id: "bench", secret: randomBytes(32) })];
  let backend = await openBackend({ kind: "level", folder }, world);
  let store = await openSealedStore({ backend, keys, world });
  const ids = Array.from({ length: count }, () => randomUUID());
  for (let from = 0; from < count; from += 1_000) {
    const some = ids.slice(from, from + 1_000);
    await store.commit(
      some.map((id, i) => ({
        key: keyOf("connection.lookups", "prod", "google-calendar", id),
        value: filedUnder(from + i, 1),
      })),
    );
  }
  store.close();
  await backend.close();
  backend = await openBackend({ kind: "level", folder }, world);
  store = await openSealedStore({ backend, keys, world });
  let longest = 0;
  let last = performance.now();
  const looking = setInterval(() => {
    longest = Math.max(longest, performance.now() - last - 1);
    last = performance.now();
  }, 1);
  const since = performance.now();
  const cpu = process.threadCpuUsage();
  const { lookupRows } = createCollections(store, { fieldsOf: () => [] });
  const rows = createLookupRowsState();
  const mostBytes = Number.POSITIVE_INFINITY;
  const resources = await openLookupIndex({ store, lookupRows, rows, mostBytes, world });
  const took = performance.now() - since;
  const { user, system } = process.threadCpuUsage(cpu);
  clearInterval(looking);
  say(
    `${count} connections read from the embedded store at start: ${ms(took)}, ${perSecond(count, took)}/s, ${ms((user + system) / 1_000)} of CPU of the loop;`,
  );
  say(`  the loop was held up for ${ms(longest)} at most`);
  const lookup = { rule: 0, field, values: [uriOf(count - 1)] };
  const { matches } = await resources.match({ environment: "prod", integration: "google-calendar" }, [lookup]);
  if (matches[0]?.id !== ids.at(-1)) throw new Error("what was stored is not found");
  resources.close();
  store.close();
  await backend.close();
}

/** The process's own memory after garbage collection. */
async function atRest(): Promise<number> {
  for (let i = 0; i < 4; i += 1) {
    globalThis.gc?.();
    await sleep(50);
  }
  const [, kibibytes = "0"] = /RssAnon:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8")) ?? [];
  return Number(kibibytes) * 1024;
}

const micro = (microseconds: number): string => `${microseconds.toFixed(2)} us`;
const perOne = (bytes: number, count: number): string => (bytes / count).toFixed(0);
const perSecond = (count: number, milliseconds: number): string => String(Math.round(count / (milliseconds / 1_000)));
const say = (line: string) => void process.stdout.write(`${line}\n`);

const [, program = "", what = "", count = "0", each = "1"] = process.argv;
if (program === fileURLToPath(import.meta.url)) say(JSON.stringify(await measure(what, Number(count), Number(each))));
