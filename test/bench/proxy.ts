import { mkdirSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import {
  type Candidate,
  callerFields,
  fillStore,
  type Kind,
  kindsThere,
  usedIds,
  type Way,
} from "./proxy-candidates.ts";
import {
  download,
  loadWith,
  openLine,
  openLoop,
  openMany,
  openStream,
  requestFor,
  type Target,
  upload,
} from "./proxy-load.ts";
import { type Origins, startOrigins } from "./proxy-origins.ts";
import { cpuSeconds, descriptorLimit, forgetPeak, loadAverage, memoryMb, pinSelf } from "./proxy-process.ts";
import { createTable, type Table } from "./proxy-table.ts";
import { recordColumn } from "./score/figure.ts";
import { withFolder } from "./sidecar-process.ts";

export interface ProxyOptions {
  /** Connections in the sidecar's store. */
  readonly count: number;
  readonly only: readonly string[];
  /** Cells of the requests, for example `small-32`; empty: all. */
  readonly cells: readonly string[];
  /** Peers beside the sidecar; empty: all that are there. */
  readonly peers: readonly string[];
  readonly rounds: number;
  /** The duration of each measurement. */
  readonly seconds: number;
  /** Another build of the sidecar (its `latchkey.js`), or `edge`, measured in the same rounds. */
  readonly beside: string | undefined;
}

interface Bench extends ProxyOptions {
  readonly folder: string;
  readonly origins: Origins;
  readonly kinds: readonly Kind[];
}

const parts: Readonly<Record<string, (bench: Bench) => Promise<void>>> = {
  requests: (bench) => requestsTo(bench, "http"),
  tls: (bench) => requestsTo(bench, "https"),
  ...{ bulk, idle, streams, latency },
};

/**
 * The proxy beside others that stand in the same place, in turns: the sidecar checks the key, finds the connection,
 * judges where its credentials may go, and counts; the others put in one header and relay.
 */
export async function proxy(asked: Partial<ProxyOptions>): Promise<void> {
  const { beside, cells: chosen = [], peers = [] } = asked;
  const options = {
    beside,
    cells: chosen,
    peers,
    count: asked.count || 100_000,
    rounds: asked.rounds || 5,
    seconds: asked.seconds || 2,
  };
  const only = asked.only?.length ? asked.only : Object.keys(parts);
  const unknown = only.filter((name) => parts[name] === undefined);
  if (unknown.length > 0) throw new Error(`no part ${unknown.join()}: there are ${Object.keys(parts).join()}`);
  pinSelf();
  await withFolder(async (folder) => {
    for (const store of ["store", "beside"]) mkdirSync(`${folder}/${store}`);
    const origins = await startOrigins(folder);
    try {
      const filled = { origins, folder, count: options.count };
      if (beside !== undefined) {
        await fillStore({ ...filled, store: "beside", dist: beside === "edge" ? undefined : beside });
      }
      const rate = await fillStore({ ...filled, store: "store" });
      say(`${options.count} connections imported, ${Math.round(rate)}/s; load average ${loadAverage()}`);
      const isChosen = ({ name }: Kind) => peers.length === 0 || [...peers, ...own].includes(name);
      const kinds = kindsThere({ origins, folder, beside }).filter(isChosen);
      const bench = { ...options, only, folder, origins, kinds };
      for (const name of only) {
        await parts[name]?.(bench);
        say(`load average ${loadAverage()}\n`);
      }
    } finally {
      await origins.stop();
    }
  });
}

/** The sidecar, and its other build. */
const own = ["latchkey", "beside", "edge"];

type Named = readonly [name: string, candidate: Candidate];

/** Runs with all candidates started, and stops them. Reports one that does not start and leaves it out. */
async function withAll(kinds: readonly Kind[], run: (all: readonly Named[]) => Promise<void>): Promise<void> {
  const all: Named[] = [];
  try {
    for (const { name, start } of kinds) {
      const started = await start().catch((error: Error) => say(`${name} is left out: ${error.message}`));
      if (started !== undefined) all.push([name, started]);
    }
    await run(all);
  } finally {
    await Promise.all(all.map(([, { stop }]) => stop()));
  }
}

const targetOf = ({ count }: Bench, { portTo }: Pick<Candidate, "portTo">, way: Way, path: string): Target => ({
  port: portTo(way),
  path,
  fields: callerFields(way),
  ids: usedIds(way, count),
});

/** The origin without a proxy, to show what a candidate adds. */
const direct = ({ origins }: Bench): Pick<Candidate, "portTo"> => ({ portTo: (way) => origins.ports[way] });

const cells = [
  { path: "small", connections: 32 },
  { path: "small", connections: 256 },
  { path: "small", connections: 1 },
  { path: "fields", connections: 32 },
] as const;

async function requestsTo(bench: Bench, way: "http" | "https"): Promise<void> {
  const { kinds, rounds, seconds, folder } = bench;
  await withAll(kinds, async (all) => {
    for (const [, candidate] of all) await warm(targetOf(bench, candidate, way, "/proxy/small"), folder);
    for (const { path, connections } of cells) {
      const cell = `${path}-${connections}`;
      if (bench.cells.length > 0 && !bench.cells.includes(cell)) continue;
      const table = createTable(["req/s", "CPU µs/req", "p50 µs", "p99 µs", "failed"]);
      for (let round = 0; round < rounds; round += 1) {
        if (way === "http") {
          const target = targetOf(bench, direct(bench), way, `/${path}`);
          const {
            requests: answered,
            seconds: took,
            p50Ms,
            p99Ms,
          } = await loadWith(target, { connections, seconds, folder });
          table.note("direct", [answered / took, undefined, p50Ms * 1_000, p99Ms * 1_000]);
        }
        for (const [name, candidate] of inTurn(all, round)) {
          const before = cpuSeconds(candidate.pid);
          const target = targetOf(bench, candidate, way, `/proxy/${path}`);
          const {
            requests: answered,
            seconds: took,
            ...rest
          } = await loadWith(target, { connections, seconds, folder });
          const cpu = (cpuSeconds(candidate.pid) - before) / answered;
          table.note(name, [answered / took, cpu * 1e6, rest.p50Ms * 1_000, rest.p99Ms * 1_000, rest.failed]);
        }
      }
      const what = path === "small" ? "1 KiB" : "1 KiB and 25 header lines";
      print(table, { title: `${way} origin, ${what}, ${connections} connections`, compared: "req/s" });
      record(table, `proxy, ${way === "http" ? "" : "TLS to the provider, "}${what}, ${connections} connections`);
    }
  });
}

function record(table: Table, name: string): void {
  const rows = { own: "latchkey", peers: { nginx: "nginx", beside: "beside" } };
  recordColumn(table, { ...rows, name, column: "req/s", better: "higher" });
}

/** Sends requests until V8's compiler threads, which share the core, are done. */
async function warm(target: Target, folder: string): Promise<void> {
  const until = performance.now() + 15_000;
  for (let answered = 0; answered < 240_000 && performance.now() < until; ) {
    answered += (await loadWith(target, { connections: 32, seconds: 3, folder })).requests;
  }
}

const gibibyte = 1024 ** 3;

async function bulk(bench: Bench): Promise<void> {
  await withAll(bench.kinds, async (all) => {
    for (const [direction, transfer] of [
      ["download", download],
      ["upload", upload],
    ] as const) {
      const path = direction === "download" ? `down/${gibibyte}` : "up";
      const table = createTable(["MB/s", "CPU s/GiB", "peak MB"]);
      for (let round = 0; round < bench.rounds; round += 1) {
        const unhindered = await transfer(targetOf(bench, direct(bench), "scripted", `/${path}`), gibibyte);
        table.note("direct", [gibibyte / 1e6 / unhindered]);
        for (const [name, candidate] of inTurn(all, round)) {
          forgetPeak(candidate.pid);
          const before = cpuSeconds(candidate.pid);
          const took = await transfer(targetOf(bench, candidate, "scripted", `/proxy/${path}`), gibibyte);
          table.note(name, [
            gibibyte / 1e6 / took,
            cpuSeconds(candidate.pid) - before,
            memoryMb(candidate.pid, "VmHWM"),
          ]);
        }
      }
      print(table, { title: `1 GiB ${direction}, http origin`, compared: "MB/s" });
    }
  });
}

/** Callers that sent one request and keep the connection. */
function idle(bench: Bench): Promise<void> {
  return memoryOf(
    bench,
    { what: "idle caller", count: Math.min(9_500, descriptorLimit() - 500) },
    async (target, i) => {
      const { socket, ask } = await openLine(target.port);
      await ask(requestFor({ ...target, path: "/proxy/small" }, i));
      return socket;
    },
  );
}

function streams(bench: Bench): Promise<void> {
  return memoryOf(
    bench,
    { what: "open event stream", count: Math.min(5_000, Math.floor((descriptorLimit() - 500) / 2)) },
    (target, i) => openStream({ ...target, path: "/proxy/stream" }, i),
  );
}

interface Held {
  readonly what: string;
  readonly count: number;
}

type Open = (target: Target, i: number) => ReturnType<typeof openStream>;

/** Memory of warm candidates, each in its own process, that hold this number of connections or streams. */
async function memoryOf(bench: Bench, { what, count }: Held, open: Open): Promise<void> {
  const table = createTable(["started MB", "warm MB", "holding MB", "KB each"]);
  for (let round = 0; round < Math.min(2, bench.rounds); round += 1) {
    for (const kind of bench.kinds) {
      await withAll([kind], async (all) => {
        for (const [name, candidate] of all) {
          const started = memoryMb(candidate.pid, "VmRSS");
          const target = targetOf(bench, candidate, "scripted", "/proxy/small");
          await loadWith(target, { connections: 32, seconds: 2, folder: bench.folder });
          await sleep(1_000);
          const warm = memoryMb(candidate.pid, "VmRSS");
          const sockets = await openMany(count, (i) => open(target, i));
          await sleep(3_000);
          const holding = memoryMb(candidate.pid, "VmRSS");
          table.note(name, [started, warm, holding, ((holding - warm) * 1_024) / count]);
          for (const socket of sockets) socket.removeAllListeners("close").destroy();
        }
      });
    }
  }
  print(table, { title: `memory with ${count} of: ${what}`, compared: "KB each" });
}

/** 1,000 requests a second: far below the limit of each candidate. */
async function latency(bench: Bench): Promise<void> {
  const rate = { perSecond: 1_000, seconds: Math.max(4, bench.seconds) };
  const table = createTable(["p50 ms", "p99 ms", "added p50 ms", "added p99 ms", "failed"]);
  await withAll(bench.kinds, async (all) => {
    for (const [, candidate] of all) await warm(targetOf(bench, candidate, "http", "/proxy/small"), bench.folder);
    for (let round = 0; round < bench.rounds; round += 1) {
      const near = await openLoop(targetOf(bench, direct(bench), "http", "/small"), rate);
      table.note("direct", [near.p50Ms, near.p99Ms]);
      for (const [name, candidate] of inTurn(all, round)) {
        const { p50Ms, p99Ms, failed } = await openLoop(targetOf(bench, candidate, "http", "/proxy/small"), rate);
        table.note(name, [p50Ms, p99Ms, p50Ms - near.p50Ms, p99Ms - near.p99Ms, failed]);
      }
    }
  });
  const title = "open loop, 1,000 requests a second, http origin, 1 KiB";
  print(table, { title, compared: "added p50 ms" });
}

/** Rotates the order, so that no candidate always follows the busiest one. */
const inTurn = <T>(all: readonly T[], round: number): T[] => {
  const from = round % all.length;
  return [...all.slice(from), ...all.slice(0, from)];
};

interface Titled {
  readonly title: string;
  readonly compared: string;
}

function print(table: Table, { title, compared }: Titled): void {
  say(`\n${title}`);
  say(table.text({ peers: ["nginx", "http-proxy-3"], compared }));
}

const say = (line: string) => void process.stdout.write(`${line}\n`);
