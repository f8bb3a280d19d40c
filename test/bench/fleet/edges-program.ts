/**
 * Many edges in one process: each follows a broker with the client of `latchkey edge`, and holds one connection. Told to
 * on its input, it also writes to that connection once a second, through a broker's JSON route.
 */
import { Agent, request } from "node:http";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { createLog } from "../../../src/base/log.ts";
import { createMetrics } from "../../../src/base/metrics/metrics.ts";
import type { World } from "../../../src/base/world.ts";
import { openFollowed } from "../../../src/edge/followed.ts";

export interface EdgesRequest {
  readonly control: readonly string[];
  readonly data: readonly string[];
  readonly integration: string;
  /** Only these write: the client of `edge` runs in other processes. */
  readonly writes: boolean;
  readonly edges: readonly EdgeOfBench[];
}

export interface EdgeOfBench {
  readonly environment: string;
  readonly id: string;
  /** Key with the scope `edge`, or of a writer. */
  readonly key: string;
}

export interface EdgesResult {
  readonly latenciesMs: readonly number[];
  readonly failed: number;
  /** Changes that brokers have sent unasked since the start. */
  readonly changes: number;
}

const asked = JSON.parse(process.env["EDGES"] ?? "{}") as EdgesRequest;
const metrics = createMetrics();
const log = createLog({ level: "error", format: "json", write: (line) => void process.stderr.write(line) });
const world: World = { now: Date.now, log, metrics };
const everyMs = 1_000;
const openAtOnce = 20;

function fixedCredentials(secret: string) {
  const tls = { ca: undefined, cert: undefined, key: undefined };
  const credentials = { secret, endsAtMs: undefined, tls };
  return { read: () => credentials, last: () => credentials, files: [] };
}

async function follow(): Promise<void> {
  const { control, edges, integration } = asked;
  for (let at = 0; at < edges.length; at += openAtOnce) {
    await Promise.all(
      edges.slice(at, at + openAtOnce).map(async ({ environment, id, key }) => {
        const followed = openFollowed(
          {
            urls: control,
            dataUrls: [],
            credentials: fixedCredentials(key),
            environment,
            maxConnections: 10_000,
            maxAwayMs: 3_600_000,
          },
          world,
        );
        await followed.inSync;
        await followed.live.get({ $typeName: "latchkey.v1.ConnectionRef", environment, integration, id });
      }),
    );
  }
}

const agent = new Agent({ keepAlive: true, maxSockets: 128 });

/** Each tenth write brings new credentials, as a refresh does: only these concern the edge that holds the connection. */
const renewsEvery = 10;

function write(base: string, { id, key }: EdgeOfBench, n: number): Promise<number> {
  const renews = n % renewsEvery === 0;
  const credentials = { type: "API_KEY", apiKey: `key-${n}-of-${id}` };
  const change = renews ? { credentials } : { metadata: { n } };
  const body = JSON.stringify({ provider_config_key: asked.integration, connection_id: id, ...change });
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  return new Promise((resolve, reject) => {
    const [method, path] = renews ? ["POST", "/connections"] : ["PATCH", "/connections/metadata"];
    const sent = request(`${base}${path}`, { agent, method, headers }, (response) => {
      response.resume().on("end", () => resolve(response.statusCode ?? 0));
    });
    sent.on("error", reject).end(body);
  });
}

async function writeFor(seconds: number): Promise<Omit<EdgesResult, "changes">> {
  const { data, edges } = asked;
  const latenciesMs: number[] = [];
  let failed = 0;
  const until = performance.now() + seconds * 1_000;
  await Promise.all(
    edges.map(async (edge, i) => {
      const base = data[i % data.length] ?? "";
      let due = performance.now() + Math.random() * everyMs;
      for (let n = 1 + (i % renewsEvery); due < until; n += 1, due += everyMs) {
        await sleep(Math.max(0, due - performance.now()));
        const since = performance.now();
        const status = await write(base, edge, n).catch(() => 0);
        if (status === 200 || status === 201) latenciesMs.push(performance.now() - since);
        else failed += 1;
      }
    }),
  );
  return { latenciesMs, failed };
}

async function changesSoFar(): Promise<number> {
  const { values } = await metrics.edgeChanges.get();
  return values.reduce((sum, { value }) => sum + value, 0);
}

if (!asked.writes) await follow();
process.stdout.write("ready\n");
for await (const line of createInterface({ input: process.stdin })) {
  const written = asked.writes ? await writeFor(Number(line)) : { latenciesMs: [], failed: 0 };
  const changes = asked.writes ? 0 : await changesSoFar();
  process.stdout.write(`${JSON.stringify({ ...written, changes } satisfies EdgesResult)}\n`);
}
process.exit();
