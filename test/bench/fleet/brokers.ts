import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { WebhookService } from "../../../src/gen/latchkey/v1/webhook_pb.ts";
import { type Postgres, startPostgres } from "../../support/postgres/postgres.ts";
import { openLine } from "../proxy-load.ts";
import { loadAverage } from "../proxy-process.ts";
import { createTable } from "../proxy-table.ts";
import { type BenchSidecar, deployed, startBenchSidecar, withFolder } from "../sidecar-process.ts";
import { type CpuShare, createCpuShare } from "./cpu-share.ts";

interface Brokers {
  readonly rounds: number;
  readonly seconds: number;
}

const adminKey = "lk_bench-admin-key-of-the-control-plane";
/** What each broker gets of a core. */
const cores = 0.25;
const compared = [1, 3] as const;
const senders = 64;
const channels = 500;
/** Deliveries that wait before each measurement, for each second and broker: more than it can deliver. */
const waitingPerSecond = 900;
const warmUpSeconds = 2;

/**
 * Deliveries of one broker and of three, each held to the same part of a core, over one PostgreSQL that is not limited,
 * as the application is not. In each round both deliver what waits for the same time.
 */
export async function brokers({ rounds, seconds }: Brokers): Promise<void> {
  const lookSeconds = seconds || 8;
  const server = await startPostgres();
  const application = await startApplication();
  const table = createTable(["delivered/s", "CPU µs each", "cores"]);
  const rates: Record<number, number[]> = { 1: [], 3: [] };
  try {
    await withFolder(async (folder) => {
      writeFileSync(`${folder}/latchkey.yaml`, "{}\n");
      const fleets: Fleet[] = [];
      for (const count of compared) fleets.push(await startFleet({ count, folder, server, application }));
      for (let round = 0; round < (rounds || 3); round += 1) {
        for (const fleet of fleets) {
          const { perSecond, cpuSeconds } = await deliver(fleet, application, lookSeconds);
          table.note(`${fleet.all.length} brokers`, [
            perSecond,
            (cpuSeconds / lookSeconds / perSecond) * 1e6,
            cpuSeconds / lookSeconds,
          ]);
          rates[fleet.all.length]?.push(perSecond);
        }
      }
      for (const fleet of fleets) await fleet.stop();
    });
  } finally {
    application.stop();
    await server.stop();
  }
  say(`\nwaiting deliveries, each broker held to ${cores} of a core:`);
  say(table.text({ peers: ["1 brokers"], compared: "delivered/s" }));
  const [one = Number.NaN, three = Number.NaN] = compared.map((count) => median(rates[count] ?? []));
  say(`three brokers deliver ${(three / one).toFixed(2)} times what one does; load average ${loadAverage()}`);
}

interface Broker {
  readonly sidecar: BenchSidecar;
  readonly share: CpuShare;
}

interface Fleet {
  readonly all: readonly Broker[];
  /** The path of the application's address, by which it counts. */
  readonly count: string;
  fill(number: number): Promise<void>;
  pause(): Promise<void>;
  resume(): Promise<void>;
  waiting(): Promise<number>;
  stop(): Promise<void>;
}

interface FleetOptions {
  readonly count: number;
  readonly folder: string;
  readonly server: Postgres;
  readonly application: Application;
}

async function startFleet({ count, folder, server, application }: FleetOptions): Promise<Fleet> {
  const env = {
    LATCHKEY_STORE: server.storeUrl(`brokers_${count}`),
    LATCHKEY_ADMIN_KEY: adminKey,
    LATCHKEY_CONFIG: `${folder}/latchkey.yaml`,
    ...deployed,
  };
  const all: Broker[] = [];
  for (let i = 0; i < count; i += 1) {
    const sidecar = await startBenchSidecar({ folder, env });
    const share = createCpuShare();
    share.add(sidecar.pid);
    all.push({ sidecar, share });
  }
  const [{ sidecar: first }] = all as [Broker];
  const path = `/fleet-${count}`;
  const url = `${application.url}${path}`;
  const authorize: Interceptor = (next) => (request) => {
    request.header.set("authorization", `Bearer ${adminKey}`);
    return next(request);
  };
  const transport = createGrpcTransport({ baseUrl: first.control, interceptors: [authorize] });
  const environments = createClient(EnvironmentService, transport);
  const webhooks = createClient(WebhookService, transport);
  await environments.createEnvironment({ name: "fleet", forwardUrl: url });
  const { secret } = await environments.createKey({ environment: "fleet" });
  const headers = { authorization: `Bearer ${secret}`, "content-type": "application/json" };
  const integration = { unique_key: "calendar", provider: "calendar" };
  const credentials = { type: "OAUTH2", client_id: "id", client_secret: "secret" };
  await fetch(`${first.data}/integrations`, {
    method: "POST",
    headers,
    body: JSON.stringify({ ...integration, credentials }),
  });
  const shown = await fetch(`${first.data}/integrations/calendar?include=webhook`, { headers });
  const { data } = (await shown.json()) as { readonly data: { readonly webhook_url: string } };
  const webhookPath = new URL(data.webhook_url).pathname;
  const destination = { environment: "fleet", url };
  let messages = 0;
  return {
    all,
    count: path,
    async fill(number) {
      const ports = all.map(({ sidecar }) => Number(new URL(sidecar.data).port));
      const lines = await Promise.all(Array.from({ length: senders }, (_, i) => openLine(ports[i % count] ?? 0)));
      let left = number;
      await Promise.all(
        lines.map(async (line) => {
          while (left > 0) {
            left -= 1;
            messages += 1;
            await line.ask(notification(webhookPath, messages));
          }
        }),
      );
      for (const { socket } of lines) socket.destroy();
    },
    pause: async () => void (await webhooks.pauseDestination({ ...destination, reason: "bench" })),
    resume: async () => void (await webhooks.resumeDestination(destination)),
    waiting: () => metricOf(first, "latchkey_outbox_forwards"),
    async stop() {
      await Promise.all(all.map(({ sidecar }) => sidecar.stop()));
      for (const { share } of all) share.end();
    },
  };
}

const notification = (path: string, number: number): string =>
  [
    `POST ${path} HTTP/1.1`,
    "host: 127.0.0.1",
    `x-cal-channel-id: channel-${number % channels}`,
    "x-cal-resource-id: resource-1",
    "x-cal-resource-uri: https://calendar.example/v3/calendars/one/events?alt=json",
    "x-cal-resource-state: exists",
    `x-cal-message-number: ${number}`,
    "content-length: 0\r\n\r\n",
  ].join("\r\n");

async function metricOf({ ops }: BenchSidecar, name: string): Promise<number> {
  const text = await (await fetch(`${ops}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1]);
}

/** Fills the outbox without a limit, then measures what is delivered under it. */
async function deliver(fleet: Fleet, application: Application, seconds: number) {
  const { all } = fleet;
  await fleet.pause();
  const wanted = Math.ceil(waitingPerSecond * all.length * (seconds + warmUpSeconds));
  const missing = wanted - (await fleet.waiting());
  if (missing > 0) await fleet.fill(missing);
  await settled(fleet, wanted);
  for (const { share } of all) share.limit(cores);
  await fleet.resume();
  await sleep(warmUpSeconds * 1_000);
  const cpu = () => all.reduce((sum, { share }) => sum + share.seconds(), 0);
  const [from, cpuFrom, since] = [await application.got(fleet.count), cpu(), performance.now()];
  await sleep(seconds * 1_000);
  const [to, cpuTo, elapsed] = [await application.got(fleet.count), cpu(), performance.now() - since];
  for (const { share } of all) share.limit(undefined);
  await fleet.pause();
  if ((await fleet.waiting()) === 0) throw new Error("too few deliveries waited");
  return { perSecond: ((to - from) / elapsed) * 1_000, cpuSeconds: cpuTo - cpuFrom };
}

/** Resolves when every broker knows all that waits, and has its share of the partitions. */
async function settled({ all }: Fleet, wanted: number): Promise<void> {
  const least = Math.floor(64 / all.length);
  for (;;) {
    const states = await Promise.all(
      all.map(async ({ sidecar }) => ({
        waiting: await metricOf(sidecar, "latchkey_outbox_forwards"),
        partitions: await metricOf(sidecar, "latchkey_partitions"),
      })),
    );
    if (states.every(({ waiting, partitions }) => waiting >= wanted && partitions >= least)) break;
    await sleep(250);
  }
  // What filling left behind is collected and compiled before.
  await sleep(1_000);
}

interface Application {
  readonly url: string;
  /** How many deliveries came to a path. */
  got(path: string): Promise<number>;
  stop(): void;
}

const program = fileURLToPath(new URL("../webhooks/application-program.ts", import.meta.url));

async function startApplication(): Promise<Application> {
  const child = spawn(process.execPath, [program], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const { value: port } = await lines.next();
  return {
    url: `http://127.0.0.1:${port}`,
    async got(path) {
      child.stdin.write("\n");
      const { value = "{}" } = await lines.next();
      return (JSON.parse(value) as { readonly got: Readonly<Record<string, number>> }).got[path] ?? 0;
    },
    stop: () => void child.kill(),
  };
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
const say = (text: string) => void process.stdout.write(`${text}\n`);
