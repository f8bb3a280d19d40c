import { spawn } from "node:child_process";
import { hash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { open, rm } from "node:fs/promises";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { createLog } from "../../src/base/log.ts";
import { createMetrics } from "../../src/base/metrics/metrics.ts";
import { EnvironmentService } from "../../src/gen/latchkey/v1/environment_pb.ts";
import { WebhookService } from "../../src/gen/latchkey/v1/webhook_pb.ts";
import { openBackend } from "../../src/store/open.ts";
import { localSealKey } from "../../src/store/sealed/seal-key.ts";
import { openSealedStore, type SealedStore } from "../../src/store/sealed/sealed.ts";
import { openLine } from "./proxy-load.ts";
import { cpuSeconds, loadAverage } from "./proxy-process.ts";
import { createTable } from "./proxy-table.ts";
import { recordColumn } from "./score/figure.ts";
import { type BenchSidecar, deployedOptions, quantile, startBenchSidecar, withFolder } from "./sidecar-process.ts";
import { commits } from "./store.ts";
import { hasWrk, runWrk } from "./wrk.ts";

const adminKey = "lk_bench-admin-key-of-the-control-plane";
const sendersTried = [1, 16, 64];
const perRound = 4_000;
const openLoopSeconds = 5;
const openLoopPerSecond = 2_000;
const warming = 2;
/** The bytes that a webhook and its delivery add to the store's log. */
const bytesEach = 2_000;
/** Enough connections for an eighth of a second without acknowledgements. */
const standing = 256;
const fanOut = 1_000;

interface Webhooks {
  /** Empty: all parts. */
  readonly only: readonly string[];
  readonly rounds: number;
}

const parts: Readonly<Record<string, (bench: Bench, rounds: number) => Promise<void>>> = {
  receive,
  steady,
  fan,
  deliver,
};

/** Webhooks in and out: how fast they are acknowledged, matched and delivered. */
export async function webhooks({ only, rounds }: Webhooks): Promise<void> {
  const unknown = only.filter((name) => parts[name] === undefined);
  if (unknown.length > 0) throw new Error(`${unknown.join()}: the parts are ${Object.keys(parts).join(", ")}`);
  await withFolder(async (folder) => {
    const application = await startApplication();
    const store = `${folder}/store`;
    mkdirSync(store);
    writeFileSync(`${folder}/latchkey.yaml`, "webhooks: { outbox: 10000000 }\n");
    const sidecar = await startBenchSidecar({
      folder: store,
      env: { LATCHKEY_ADMIN_KEY: adminKey, LATCHKEY_CONFIG: `${folder}/latchkey.yaml`, NODE_OPTIONS: deployedOptions },
    });
    try {
      const bench = await prepare(sidecar, application, folder);
      for (const [name, part] of Object.entries(parts)) {
        if (only.length === 0 || only.includes(name)) await part(bench, rounds || 5);
      }
      say(`load average ${loadAverage()}`);
    } finally {
      await sidecar.stop();
      application.stop();
    }
  });
}

interface Bench {
  readonly sidecar: BenchSidecar;
  readonly application: Application;
  readonly folder: string;
  /** The webhook addresses of each environment's calendar. */
  readonly paths: Readonly<Record<"idle" | "fast" | "beside" | "dead", string>>;
  readonly rpc: ReturnType<typeof rpcOf>;
}

const rpcOf = ({ control }: BenchSidecar) => {
  const transport = createGrpcTransport({
    baseUrl: control,
    interceptors: [
      (next) => (request) => {
        request.header.set("authorization", `Bearer ${adminKey}`);
        return next(request);
      },
    ],
  });
  return {
    environments: createClient(EnvironmentService, transport),
    webhooks: createClient(WebhookService, transport),
  };
};

/** An environment for each kind of application, with a thousand connections of one URI and one of another. */
async function prepare(sidecar: BenchSidecar, application: Application, folder: string): Promise<Bench> {
  const rpc = rpcOf(sidecar);
  const paths: Record<string, string> = {};
  for (const [name, url] of Object.entries({
    idle: `${application.url}/gone`,
    fast: `${application.url}/fast`,
    beside: `${application.url}/fast`,
    dead: `${application.url}/dead`,
  })) {
    await rpc.environments.createEnvironment({ name, forwardUrl: url });
    const { secret } = await rpc.environments.createKey({ environment: name });
    const ask = async (method: string, path: string, body?: object) => {
      const answer = await fetch(`${sidecar.data}${path}`, {
        method,
        headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
        ...(body && { body: JSON.stringify(body) }),
      });
      if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
      return (await answer.json()) as { readonly data: { readonly webhook_url: string } };
    };
    const credentials = { type: "OAUTH2", client_id: "id", client_secret: "secret" };
    await ask("POST", "/integrations", { unique_key: "calendar", provider: "calendar", credentials });
    const connect = (id: string, uri: string) =>
      ask("POST", "/connections", {
        provider_config_key: "calendar",
        connection_id: id,
        credentials: { type: "OAUTH2", access_token: "token" },
        metadata: { calendarWatchResourceUris: [uri] },
      });
    await connect("one", uriOf("one"));
    if (name === "fast") for (let i = 0; i < fanOut; i += 1) await connect(`of-many-${i}`, uriOf("many"));
    const { data } = await ask("GET", "/integrations/calendar?include=webhook");
    paths[name] = new URL(data.webhook_url).pathname;
  }
  return { sidecar, application, folder, paths: paths as Bench["paths"], rpc };
}

const uriOf = (calendar: string): string => `https://calendar.example/v3/calendars/${calendar}/events?alt=json`;

let messages = 0;
/** The next notification of a channel, in wire format. */
function notification(path: string, calendar = "one"): string {
  messages += 1;
  return [
    `POST ${path} HTTP/1.1`,
    "host: 127.0.0.1",
    `x-cal-channel-id: channel-${messages % 64}`,
    "x-cal-resource-id: resource-1",
    `x-cal-resource-uri: ${uriOf(calendar)}`,
    "x-cal-resource-state: exists",
    `x-cal-message-number: ${messages}`,
    "content-length: 0\r\n\r\n",
  ].join("\r\n");
}

const portOf = ({ data }: BenchSidecar): number => Number(new URL(data).port);

/** A number of senders, each waiting for its acknowledgement, compared to bare durable commits in the same folder. */
async function receive(bench: Bench, rounds: number): Promise<void> {
  const { sidecar, paths, folder } = bench;
  const world = {
    now: Date.now,
    log: createLog({ level: "error", format: "json", write: (line) => void process.stderr.write(line) }),
    metrics: createMetrics(),
  };
  const backend = await openBackend({ kind: "level", folder: `${folder}/commits` }, world);
  const keys = [localSealKey({ id: "bench", secret: Buffer.alloc(32, 1) })];
  const store = await openSealedStore({ backend, keys, world });
  const table = createTable(["acknowledged/s", "p50 ms", "p99 ms", "CPU µs each", "to one key", "to as a webhook"]);
  // The first delivery pauses the address: all later ones wait.
  await send(bench, paths.idle, { senders: 1, count: 1 });
  await sleep(1_000);
  for (const senders of sendersTried) await send(bench, paths.idle, { senders, count: perRound / 2 });
  for (let round = 0; round < rounds; round += 1) {
    for (const senders of sendersTried) {
      const count = senders === 1 ? perRound / 4 : perRound * (senders === 64 ? 3 : 1);
      const bare = await commits(backend, senders, count / senders ** 0.25);
      table.note(`store, one key, ${senders} callers`, [bare]);
      const alike = await commitsAlike(store, { senders, count });
      table.note(`store, as a webhook, ${senders} callers`, [alike]);
      const before = cpuSeconds(sidecar.pid);
      const { sent, perSecond, p50Ms, p99Ms } = await sendHard(bench, paths.idle, { senders, count });
      const cpu = ((cpuSeconds(sidecar.pid) - before) / sent) * 1e6;
      table.note(`webhooks, ${senders} senders`, [perSecond, p50Ms, p99Ms, cpu, perSecond / bare, perSecond / alike]);
    }
  }
  for (const senders of sendersTried) {
    recordColumn(table, {
      name: `webhooks, ${senders} ${senders === 1 ? "sender" : "senders"}`,
      column: "acknowledged/s",
      better: "higher",
      own: `webhooks, ${senders} senders`,
      peers: { "the store's commits": `store, as a webhook, ${senders} callers` },
    });
  }
  store.close();
  await backend.close();
  say("\nreceived, matched, stored with a forward and acknowledged; the application takes nothing meanwhile:");
  say(table.text({ peers: [], compared: "acknowledged/s" }));
}

interface Named {
  /** The digest of its message. */
  readonly digest: string;
  /** Ascending. */
  readonly id: string;
  /** The id of its delivery. */
  readonly message: string;
}

const named = (at: number): Named => ({
  digest: hash("sha256", `seen ${at}`),
  id: `0mwsi1la2${String(at).padStart(12, "0")}`,
  message: `msg_${hash("sha256", `forward ${at}`, "base64url").slice(0, 32)}`,
});

/**
 * The writes of a notification with one delivery: as many and as large, with the same two that must be absent. Ordered
 * keys stay ordered and random keys random, for which LevelDB takes a sixth longer.
 */
const alike = [
  { key: ({ digest }: Named) => `notification-seen\0bench\0calendar\0${digest}`, bytes: 36, expect: 0 },
  { key: ({ id }: Named) => `notification\0bench\0${id}`, bytes: 337 },
  { key: ({ message }: Named) => `forward\0bench\0${message}`, bytes: 217, expect: 0 },
  { key: ({ id, message }: Named) => `forward.made\0bench\0${id}\0bench\0${message}`, bytes: 0 },
  { key: ({ id, message }: Named) => `forward.connection\0bench\0calendar\0one\0${id}\0bench\0${message}`, bytes: 0 },
  { key: ({ message }: Named) => `forward.waiting\0bench\0${message}`, bytes: 62 },
] as const;

async function commitsAlike(store: SealedStore, { senders, count }: Sending): Promise<number> {
  const from = messages;
  messages += count;
  // Created in advance: that is not part of a commit.
  const keys = Array.from({ length: count }, (_, i) => alike.map(({ key }) => key(named(from + i))));
  let next = 0;
  const since = performance.now();
  await Promise.all(
    Array.from({ length: senders }, async () => {
      for (let at = next++; at < count; at = next++) {
        await store.commit(
          alike.map(({ bytes, ...rest }, i) => ({ ...rest, key: keys[at]?.[i] ?? "", value: Buffer.alloc(bytes, at) })),
        );
      }
    }),
  );
  return count / ((performance.now() - since) / 1_000);
}

interface Sending {
  readonly senders: number;
  readonly count: number;
}

const hardForSeconds = 2;

/**
 * Sends as fast as possible, with a program that takes little of the two cores; without wrk, a fixed number from here.
 */
async function sendHard(bench: Bench, path: string, { senders, count }: Sending) {
  if (!hasWrk) return { sent: count, ...(await send(bench, path, { senders, count })) };
  const port = portOf(bench.sidecar);
  const asking = { port, connections: senders, seconds: hardForSeconds, folder: bench.folder };
  const text = notification(path)
    .replace(`channel-${messages % 64}`, "channel-%d")
    .replace(`: ${messages}\r`, ": %d\r");
  const script = `local at, text = ${messages}, ${JSON.stringify(text)}
request = function()
  at = at + 1
  return string.format(text, at % 64, at)
end`;
  const { requests, seconds, p50Ms, p99Ms, failed } = await runWrk({ ...asking, script });
  if (failed > 0) throw new Error(`${failed} of ${requests} were not acknowledged`);
  // Requests in progress at the end have numbers too.
  messages += requests + senders;
  return { sent: requests, perSecond: requests / seconds, p50Ms, p99Ms };
}

async function send({ sidecar }: Bench, path: string, { senders, count }: Sending) {
  const lines = await Promise.all(Array.from({ length: senders }, () => openLine(portOf(sidecar))));
  const times: number[] = [];
  let left = count;
  const since = performance.now();
  await Promise.all(
    lines.map(async (line) => {
      while (left > 0) {
        left -= 1;
        const asked = performance.now();
        await line.ask(notification(path));
        times.push(performance.now() - asked);
      }
    }),
  );
  const seconds = (performance.now() - since) / 1_000;
  for (const { socket } of lines) socket.destroy();
  return { perSecond: count / seconds, ...quantiles(times) };
}

function quantiles(times: readonly number[]) {
  const sorted = times.toSorted((a, b) => a - b);
  return { p50Ms: quantile(sorted, 0.5), p99Ms: quantile(sorted, 0.99) };
}

/**
 * An open loop: each webhook is sent when due, whatever became of those before, and deliveries continue. Beside it as
 * many bytes as often are written to a file and synced: no acknowledgement can be faster than the disk. The first ones
 * are not counted, since the program is not compiled yet.
 */
async function steady(bench: Bench, rounds: number): Promise<void> {
  const { application, paths, sidecar } = bench;
  const table = createTable(["p50 ms", "p99 ms", "late", "delivered after ms", "CPU µs each"]);
  for (let round = -warming; round < rounds; round += 1) {
    const disk = quantiles(await diskAlone(bench.folder));
    const before = (await application.say()).got["/fast"] ?? 0;
    const count = openLoopPerSecond * openLoopSeconds;
    const cpu = cpuSeconds(sidecar.pid);
    const { times, late, endedAt } = await openLoop(bench, paths.fast, count);
    const lastAt = await delivered(application, before + standing + count);
    const each = ((cpuSeconds(sidecar.pid) - cpu) / (standing + count)) * 1e6;
    if (round < 0) continue;
    table.note("the disk alone", [disk.p50Ms, disk.p99Ms]);
    table.note("webhooks", [quantiles(times).p50Ms, quantiles(times).p99Ms, late, lastAt - endedAt, each]);
  }
  say(
    `\n${openLoopPerSecond} a second for ${openLoopSeconds} s in an open loop, acknowledged, and delivered meanwhile:`,
  );
  say(table.text({ peers: ["the disk alone"], compared: "p99 ms" }));
  const rows = { own: "webhooks", peers: { "the disk": "the disk alone" } };
  const name = `webhooks, ${openLoopPerSecond.toLocaleString("en")}/s delivered, p99 of the acknowledgement`;
  recordColumn(table, { ...rows, name, column: "p99 ms", better: "lower" });
}

/** Writes that arrive during a sync share the next one, as in the store. */
async function diskAlone(folder: string): Promise<readonly number[]> {
  const file = await open(`${folder}/disk`, "a");
  const times: number[] = [];
  let waiting: number[] = [];
  let syncing: Promise<void> | undefined;
  async function syncAll(): Promise<void> {
    while (waiting.length > 0) {
      const due = waiting;
      waiting = [];
      await file.write(Buffer.alloc(due.length * bytesEach));
      await file.datasync();
      for (const at of due) times.push(performance.now() - at);
    }
    syncing = undefined;
  }
  const ask = (at: number) => {
    waiting.push(at);
    syncing ??= syncAll();
  };
  await openly(openLoopPerSecond * openLoopSeconds, ask);
  await syncing;
  await file.close();
  await rm(`${folder}/disk`);
  return times;
}

/** Schedules this number of requests, each when it is due. */
async function openly(count: number, ask: (due: number) => void): Promise<void> {
  const since = performance.now();
  for (let asked = 0; asked < count; ) {
    const due = Math.min(count, ((performance.now() - since) / 1_000) * openLoopPerSecond);
    for (; asked < due; asked += 1) ask(since + (asked * 1_000) / openLoopPerSecond);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/**
 * Times count from when a webhook was due, so that a queued one counts as late. Connections are kept, like those of
 * providers that notify often: Node accepts one new connection per tick, and webhooks due in the meantime would wait
 * for it.
 */
async function openLoop({ sidecar, application }: Bench, path: string, count: number) {
  const before = (await application.say()).got["/fast"] ?? 0;
  const free = await Promise.all(Array.from({ length: standing }, () => openLine(portOf(sidecar))));
  for (const line of free) await line.ask(notification(path));
  await delivered(application, before + standing);
  const all = [...free];
  const times: number[] = [];
  const underWay: Promise<void>[] = [];
  let late = 0;
  const askOne = async (due: number) => {
    let line = free.pop();
    if (line === undefined) {
      late += 1;
      line = await openLine(portOf(sidecar));
      all.push(line);
    }
    await line.ask(notification(path));
    times.push(performance.now() - due);
    free.push(line);
  };
  await openly(count, (due) => underWay.push(askOne(due)));
  await Promise.all(underWay);
  for (const { socket } of all) socket.destroy();
  return { times, late, endedAt: performance.timeOrigin + performance.now() };
}

/** When the last delivery of this number arrived. */
async function delivered(application: Application, count: number): Promise<number> {
  for (const until = performance.now() + 120_000; ; await sleep(20)) {
    const { got, lastAt } = await application.say();
    if ((got["/fast"] ?? 0) >= count) return lastAt;
    if (performance.now() > until) throw new Error(`${got["/fast"]} of ${count} were delivered`);
  }
}

/** One notification that matches a thousand connections. */
async function fan({ sidecar, application, paths }: Bench, rounds: number): Promise<void> {
  const table = createTable(["acknowledged ms", "all delivered ms", "delivered/s"]);
  const line = await openLine(portOf(sidecar));
  for (let round = 0; round < rounds * 2; round += 1) {
    const before = (await application.say()).got["/fast"] ?? 0;
    const since = performance.timeOrigin + performance.now();
    await line.ask(notification(paths.fast, "many"));
    const acknowledged = performance.timeOrigin + performance.now() - since;
    const took = (await delivered(application, before + fanOut)) - since;
    if (round >= rounds) table.note("one URI, 1,000 connections", [acknowledged, took, (fanOut / took) * 1_000]);
  }
  line.socket.destroy();
  say("\nfan-out:");
  say(table.text({ peers: [], compared: "acknowledged ms" }));
}

/** Releases all waiting deliveries at once, with and without as many for an application that never answers. */
async function deliver(bench: Bench, rounds: number): Promise<void> {
  const { application, paths, rpc, sidecar } = bench;
  const table = createTable(["delivered/s", "CPU µs each"]);
  const count = perRound;
  for (let round = 0; round < rounds; round += 1) {
    for (const beside of round % 2 === 0 ? [false, true] : [true, false]) {
      await rpc.environments.updateEnvironment({
        environment: { name: "beside", forwardUrl: `${application.url}/gone` },
        updateMask: { paths: ["forward_url"] },
      });
      await send(bench, paths.beside, { senders: 1, count: 1 });
      await sleep(500);
      await send(bench, paths.beside, { senders: 64, count: count - 1 });
      if (beside) await send(bench, paths.dead, { senders: 64, count });
      const before = (await application.say()).got["/fast"] ?? 0;
      const cpu = cpuSeconds(sidecar.pid);
      const since = performance.timeOrigin + performance.now();
      // Another address, which is not paused.
      await rpc.environments.updateEnvironment({
        environment: { name: "beside", forwardUrl: `${application.url}/fast` },
        updateMask: { paths: ["forward_url"] },
      });
      const took = (await delivered(application, before + count)) - since;
      const each = ((cpuSeconds(sidecar.pid) - cpu) / count) * 1e6;
      table.note(beside ? "beside a dead one" : "alone", [(count / took) * 1_000, each]);
      await rpc.webhooks.resumeDestination({ environment: "beside", url: `${application.url}/gone` });
    }
  }
  say("\ndelivered to a fast application:");
  say(table.text({ peers: ["alone"], compared: "delivered/s" }));
}

interface Application {
  readonly url: string;
  say(): Promise<{ readonly got: Readonly<Record<string, number>>; readonly lastAt: number }>;
  stop(): void;
}

async function startApplication(): Promise<Application> {
  const program = fileURLToPath(new URL("webhooks-application.ts", import.meta.url));
  const child = spawn(process.execPath, [program], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async () => {
    const { done, value } = await lines.next();
    if (done === true) throw new Error("the application ended");
    return String(value);
  };
  const port = await next();
  return {
    url: `http://127.0.0.1:${port}`,
    async say() {
      child.stdin.write("\n");
      return JSON.parse(await next()) as Awaited<ReturnType<Application["say"]>>;
    },
    stop: () => child.stdin.end(),
  };
}

const say = (line: string) => process.stdout.write(`${line}\n`);
