import { Agent, request } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { type Client, createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { Level } from "level";
import { type ConnectionImportSchema, ConnectionService } from "../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationService } from "../../src/gen/latchkey/v1/integration_pb.ts";
import { ms, quantile, secretKey, startBarePeer, startBenchSidecar, withFolder } from "./sidecar-process.ts";

export const integration = "keyed";
const teams = 10;
export const idOf = (i: number) => `user-${String(i).padStart(8, "0")}`;
const maxInFlight = 4_000;

type Connections = Client<typeof ConnectionService>;

/** Imports a million connections through the stream, then gets, lists and searches among them. */
export async function connections(asked: number): Promise<void> {
  const count = asked || 1_000_000;
  await withFolder(async (folder) => {
    const running = await startBenchSidecar({ folder });
    const transport = createGrpcTransport({ baseUrl: running.control, interceptors: [withKey] });
    const client = createClient(ConnectionService, transport);
    await createClient(IntegrationService, transport).createIntegration({
      integration: { key: integration, provider: "example-api-key" },
    });

    const since = performance.now();
    const failed = await importAll(client, { count, integration });
    const seconds = (performance.now() - since) / 1_000;
    say(
      `import of ${count} connections: ${seconds.toFixed(0)} s, ${Math.round(count / seconds)}/s, ${failed} failed, peak memory ${running.peakMiB()} MiB with the mapped files of the store, ${running.ownMiB()} MiB without`,
    );
    const raw = await rawRate(join(folder, "raw"), Math.min(count, 200_000));
    say(
      `  beside raw level, the same number of keys and bytes in batches of 500 with sync: ${Math.round(raw)}/s, ratio ${(count / seconds / raw).toFixed(2)}`,
    );

    // LevelDB first finishes the compaction that the import caused.
    await sleep(10_000);
    await measure("get by gRPC", 2_000, (i) =>
      client.getConnection({ ref: { integration, id: idOf((i * 7_919) % count) } }),
    );
    const peer = await startBarePeer();
    const json = jsonCaller(running.data);
    const bare = jsonCaller(peer.url);
    const get = (i: number) => json(`/connections/${idOf(i)}?provider_config_key=${integration}`);
    const besideGet = () => bare("/?bytes=430");
    await measure("get by JSON, with credentials", 5_000, (i) => get((i * 104_729) % count), besideGet);
    await measure("get by JSON, from memory", 5_000, (i) => get(i % 100), besideGet);
    await pages({ json, bare, count, filter: "", name: "page of 100, no filter" });
    await pages({ json, bare, count, filter: "&tags[team]=t3", name: "page of 100 by one tag" });
    await pages({ json, bare, count, filter: `&integrationId=${integration}`, name: "page of 100 by integration" });
    await measure("one call of a search that finds nothing", 20, () =>
      json("/connections?search=nobody-has-this&limit=100"),
    );
    json.close();
    bare.close();
    peer.stop();
    await running.stop();

    const again = await startBenchSidecar({ folder });
    say(`restart over ${count} connections: ready in ${ms(again.readyMs)}, ${again.ownMiB()} MiB`);
    await again.stop();
  });
}

/** What is imported as the connection with this number. */
export const importOf = (i: number, integration: string): MessageInitShape<typeof ConnectionImportSchema> => ({
  integration,
  id: idOf(i),
  credentials: { kind: { case: "apiKey", value: { apiKey: `key-${i}-0123456789abcdef` } } },
  metadata: { emailAddress: `user-${i}@example.com` },
  tags: { tags: { team: `t${i % teams}`, end_user_id: `u${i}` } },
});

interface Importing {
  readonly count: number;
  readonly integration: string;
}

/** Returns how many failed. */
export async function importAll(client: Connections, { count, integration }: Importing): Promise<number> {
  let sent = 0;
  let answered = 0;
  let failed = 0;
  let wake = () => {};
  async function* items() {
    while (sent < count) {
      if (sent - answered >= maxInFlight) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
        continue;
      }
      const i = sent;
      sent += 1;
      yield { connection: importOf(i, integration) };
    }
  }
  for await (const { result } of client.streamImportConnections(items())) {
    answered += 1;
    if (result?.problem !== undefined) failed += 1;
    if (sent - answered < maxInFlight / 2) wake();
  }
  return failed;
}

/**
 * Writes the five keys of a connection, about 100 bytes each: itself, credentials, two tags, a share of the audit line.
 */
async function rawRate(folder: string, count: number): Promise<number> {
  const db = new Level<string, Uint8Array>(folder, { valueEncoding: "view", writeBufferSize: 16 * 1024 * 1024 });
  const value = new Uint8Array(180);
  const empty = new Uint8Array(7);
  const since = performance.now();
  for (let at = 0; at < count; at += 500) {
    const batch = Array.from({ length: 500 }, (_, i) => idOf(at + i)).flatMap((id, i) => [
      { type: "put" as const, key: `connection\0dev\0keyed\0${id}`, value },
      { type: "put" as const, key: `credentials\0dev\0keyed\0${id}`, value: value.subarray(0, 80) },
      { type: "put" as const, key: `connection.tag\0dev\0team\0t${i % teams}\0dev\0keyed\0${id}`, value: empty },
      { type: "put" as const, key: `connection.tag\0dev\0end_user_id\0u${at + i}\0dev\0keyed\0${id}`, value: empty },
    ]);
    await db.batch(batch, { sync: true });
  }
  const rate = count / ((performance.now() - since) / 1_000);
  await db.close();
  return rate;
}

interface Paging {
  readonly json: JsonCaller;
  readonly bare: JsonCaller;
  readonly count: number;
  readonly filter: string;
  readonly name: string;
}

/** Follows the cursor from the start and times pages along the way: the last must cost no more than the first. */
async function pages({ json, bare, count, filter, name }: Paging): Promise<void> {
  const times: number[] = [];
  const beside: number[] = [];
  let cursor: string | undefined = "";
  const most = Math.min(10_000, Math.floor(count / 100));
  do {
    const since = performance.now();
    const answer = await json(`/connections?limit=100&cursor=${cursor}${filter}`);
    times.push(performance.now() - since);
    beside.push(await timed(() => bare("/?bytes=28000")));
    cursor = (answer as { next_cursor?: string }).next_cursor;
  } while (cursor !== undefined && times.length < most);
  const sorted = times.toSorted((a, b) => a - b);
  const fifth = Math.ceil(times.length / 5);
  const medianOf = (some: readonly number[]) =>
    quantile(
      some.toSorted((a, b) => a - b),
      0.5,
    );
  const along = `first fifth ${ms(medianOf(times.slice(0, fifth)))}, last fifth ${ms(medianOf(times.slice(-fifth)))}`;
  say(
    `${name}: median ${ms(medianOf(times))}, p99 ${ms(quantile(sorted, 0.99))} over ${times.length} pages; ${along}; ${besideOf(beside)}`,
  );
}

async function measure(
  name: string,
  times: number,
  run: (i: number) => Promise<unknown>,
  besideRun?: () => Promise<unknown>,
): Promise<void> {
  for (let i = 0; i < Math.min(200, times); i += 1) await run(i + times);
  const taken: number[] = [];
  const beside: number[] = [];
  for (let i = 0; i < times; i += 1) {
    taken.push(await timed(() => run(i)));
    if (besideRun !== undefined) beside.push(await timed(besideRun));
  }
  const sorted = taken.sort((a, b) => a - b);
  const peer = besideRun === undefined ? "" : `; ${besideOf(beside)}`;
  say(`${name}: p50 ${ms(quantile(sorted, 0.5))}, p99 ${ms(quantile(sorted, 0.99))}${peer}`);
}

async function timed(run: () => Promise<unknown>): Promise<number> {
  const since = performance.now();
  await run();
  return performance.now() - since;
}

/**
 * The times of a bare server with responses of the same size, called alternately in the same run: the machine's own
 * share.
 */
function besideOf(times: readonly number[]): string {
  const sorted = times.toSorted((a, b) => a - b);
  return `a bare node:http beside it p50 ${ms(quantile(sorted, 0.5))}, p99 ${ms(quantile(sorted, 0.99))}`;
}

interface JsonCaller {
  (path: string): Promise<unknown>;
  close(): void;
}

/** One kept connection, so that the sidecar is measured and not the caller. */
function jsonCaller(data: string): JsonCaller {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const call = (path: string): Promise<unknown> =>
    new Promise((resolve, reject) => {
      const asked = request(
        `${data}${path}`,
        { agent, headers: { authorization: `Bearer ${secretKey}` } },
        (response) => {
          const chunks: Buffer[] = [];
          response.on("data", (chunk: Buffer) => chunks.push(chunk));
          response.on("end", () => {
            if (response.statusCode !== 200) reject(new Error(`${path}: ${response.statusCode}`));
            else resolve(JSON.parse(Buffer.concat(chunks).toString()));
          });
        },
      );
      asked.on("error", reject).end();
    });
  return Object.assign(call, { close: () => agent.destroy() });
}

const withKey: Interceptor = (next) => (request) => {
  request.header.set("authorization", `Bearer ${secretKey}`);
  return next(request);
};

const say = (line: string) => void process.stdout.write(`${line}\n`);
