import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { type Client, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import {
  Connection_State,
  ConnectionService,
  ListConnectionsRequest_Order,
} from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { importAll, integration } from "../connections.ts";
import { type BenchSidecar, ms, quantile, secretKey, startBenchSidecar, withFolder } from "../sidecar-process.ts";

type Connections = Client<typeof ConnectionService>;
type ListRequest = Parameters<Connections["listConnections"]>[0];

/** A folder that is kept and used again: filling it takes two minutes. */
const keptFolder = process.env["LATCHKEY_BENCH_STORE"];
const order = ListConnectionsRequest_Order.NEWEST_FIRST;
const pageSize = 100;

/** Lists and counts a million connections as the dashboard does: first calls after a start, and then again. */
export async function list(asked: number): Promise<void> {
  const count = asked || 1_000_000;
  if (keptFolder === undefined) await withFolder((folder) => listIn(folder, count));
  else await listIn(keptFolder, count);
}

async function listIn(folder: string, count: number): Promise<void> {
  if (!existsSync(folder) || keptFolder === undefined) await fill(folder, count);
  const running = await startBenchSidecar({ folder, isProbed: true });
  const client = clientOf(running);
  say(`ready in ${ms(running.readyMs)}, ${running.ownMiB()} MiB`);
  await running.look();
  const began = performance.now();
  const first = await timed(() => client.listConnections({ pageSize, order }));
  const counted = await timed(() => client.countConnections({}));
  say(`right after the start: first page ${ms(first)}, counts so far ${ms(counted)}`);
  while (!(await client.countConnections({})).isComplete) await sleep(50);
  const { turnP99Ms, turnMostMs, collectedMostMs } = await running.look();
  say(
    `all counted after ${ms(performance.now() - began)}; ${running.ownMiB()} MiB; longest tick ${ms(turnMostMs)} (p99 ${ms(turnP99Ms)}, longest collection ${ms(collectedMostMs)})`,
  );

  const filters: Readonly<Record<string, ListRequest>> = {
    "first page, newest": { order },
    "first page, newest of an integration": { order, filter: { integrations: [integration] } },
    "first page, newest of a state without connections": { order, filter: { states: [Connection_State.EXPIRING] } },
    "first page of a tag": { order, filter: { tags: { team: "t3" } } },
    "first page of an id prefix": { order, filter: { idPrefix: "user-0012" } },
    "first page of a search": { order, filter: { search: "u77" } },
  };
  for (const [name, request] of Object.entries(filters)) {
    await measure(name, 100, () => client.listConnections({ pageSize, ...request }));
  }
  await measure("counts", 200, () => client.countConnections({}));
  await pages(client, running);
  await running.stop();
}

async function fill(folder: string, count: number): Promise<void> {
  const running = await startBenchSidecar({ folder });
  const transport = createGrpcTransport({ baseUrl: running.control, interceptors: [withKey] });
  await createClient(IntegrationService, transport).createIntegration({
    integration: { key: integration, provider: "example-api-key" },
  });
  await importAll(createClient(ConnectionService, transport), { count, integration });
  // LevelDB first finishes the compaction that the import caused.
  await sleep(10_000);
  await running.stop();
}

/** Scrolls through 10,000 rows: the last page must cost no more than the first. */
async function pages(client: Connections, running: BenchSidecar): Promise<void> {
  const times: number[] = [];
  for (let pageToken = ""; times.length < 100; ) {
    const since = performance.now();
    const page = await client.listConnections({ pageSize, order, pageToken });
    times.push(performance.now() - since);
    pageToken = page.nextPageToken;
    if (pageToken === "") break;
  }
  const last = times.slice(-10).toSorted((a, b) => a - b);
  say(`${times.length} pages: ${shown(times)}; last ten p50 ${ms(quantile(last, 0.5))}; ${running.ownMiB()} MiB`);
}

async function measure(name: string, times: number, run: () => Promise<unknown>): Promise<void> {
  const taken: number[] = [];
  for (let i = 0; i < times; i += 1) taken.push(await timed(run));
  say(`${name}: ${shown(taken)}`);
}

function shown(times: readonly number[]): string {
  const sorted = times.toSorted((a, b) => a - b);
  return `p50 ${ms(quantile(sorted, 0.5))}, p99 ${ms(quantile(sorted, 0.99))}`;
}

async function timed(run: () => Promise<unknown>): Promise<number> {
  const since = performance.now();
  await run();
  return performance.now() - since;
}

const clientOf = ({ control }: BenchSidecar): Connections =>
  createClient(
    ConnectionService,
    createConnectTransport({ baseUrl: control, httpVersion: "1.1", interceptors: [withKey] }),
  );

const withKey: Interceptor = (next) => (request) => {
  request.header.set("authorization", `Bearer ${secretKey}`);
  return next(request);
};

const say = (text: string) => process.stdout.write(`${text}\n`);
