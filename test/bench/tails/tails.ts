import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import {
  callerFields,
  fillStore,
  type Kind,
  kindsThere,
  startSidecar,
  usedIds,
  type Way,
} from "../proxy-candidates.ts";
import { loadWith, type Target } from "../proxy-load.ts";
import { type Origins, startOrigins } from "../proxy-origins.ts";
import { cpuOfThreads, cpuSeconds, isThere, loadAverage, pinSelf } from "../proxy-process.ts";
import { createTable, type Table } from "../proxy-table.ts";
import { type RecordedColumn, recordColumn } from "../score/figure.ts";
import { withFolder } from "../sidecar-process.ts";
import { reportTrace } from "./report.ts";
import { type Load, logged } from "./request-log.ts";
import type { Recorded } from "./turn-probe.ts";

export interface TailsOptions {
  /** Parts: `32`, `256`, `tls32`, `tls256`, and `trace` of each: `trace32`. */
  readonly only: readonly string[];
  readonly rounds: number;
  /** The duration of each measurement. */
  readonly seconds: number;
  /** Another build of the sidecar (its `latchkey.js`), measured in the same rounds. */
  readonly beside: string | undefined;
}

interface Bench extends TailsOptions {
  readonly folder: string;
  readonly origins: Origins;
}

interface Cell {
  readonly name: string;
  readonly way: "http" | "https";
  readonly connections: number;
}

const cells: readonly Cell[] = [
  { name: "32", way: "http", connections: 32 },
  { name: "256", way: "http", connections: 256 },
  { name: "tls32", way: "https", connections: 32 },
  { name: "tls256", way: "https", connections: 256 },
];
/** Part of the slowest candidate's rate, the same for all; and part of each one's own. */
const partialShare = 0.7;
const columns = ["req/s", "% of a core", "p50 ms", "p99 ms", "failed"];
const probe = fileURLToPath(new URL("turn-probe.ts", import.meta.url));

/**
 * The slowest requests beside nginx, as `latchkey serve` starts by itself: at saturation, at 70 % of the slowest one's
 * (all have the same load), and at 70 % of its own (all are equally busy). `trace` says what each of the slowest hundred
 * waited for.
 */
export async function tails(asked: TailsOptions): Promise<void> {
  for (const program of ["nginx", "h2load"]) if (!isThere(program)) throw new Error(`this bench needs ${program}`);
  const names = cells.flatMap(({ name }) => [name, `trace${name}`]);
  const only = asked.only.length > 0 ? asked.only : names;
  const unknown = only.filter((name) => !names.includes(name));
  if (unknown.length > 0) throw new Error(`no part ${unknown.join()}: there are ${names.join()}`);
  const options = { ...asked, only, rounds: asked.rounds || 5, seconds: asked.seconds || 1 };
  pinSelf();
  // The store refuses files that others may read.
  process.umask(0o077);
  await withFolder(async (folder) => {
    const origins = await startOrigins(folder);
    try {
      for (const store of ["store", "beside"]) mkdirSync(`${folder}/${store}`);
      await fillStore({ origins, folder, count: 1_000, store: "store" });
      if (options.beside !== undefined)
        await fillStore({ origins, folder, count: 1_000, store: "beside", dist: options.beside });
      const bench = { ...options, folder, origins };
      await compare(bench);
      for (const cell of cells.filter(({ name }) => only.includes(`trace${name}`))) await trace(bench, cell);
    } finally {
      await origins.stop();
    }
  });
}

type Candidate = Awaited<ReturnType<Kind["start"]>>;

const targetOf = ({ portTo }: Pick<Candidate, "portTo">, way: Way): Target => ({
  port: portTo(way),
  path: "/proxy/small",
  fields: callerFields(way),
  ids: usedIds(way, 1_000),
});

/** Until V8's compiler, which shares the core, is done. */
async function warm(target: Target, folder: string): Promise<void> {
  for (let times = 0; times < 3; times += 1) await loadWith(target, { connections: 32, seconds: 3, folder });
}

async function compare(bench: Bench): Promise<void> {
  const { only, rounds, seconds, folder, origins, beside } = bench;
  const wanted = cells.filter(({ name }) => only.includes(name));
  if (wanted.length === 0) return;
  const kinds = kindsThere({ origins, folder, beside }).filter(({ name }) =>
    ["latchkey", "beside", "nginx"].includes(name),
  );
  const all: (readonly [string, Candidate])[] = [];
  try {
    for (const { name, start } of kinds) all.push([name, await start()]);
    for (const way of new Set(wanted.map((cell) => cell.way)))
      for (const [, candidate] of all) await warm(targetOf(candidate, way), folder);
    for (const { way, connections } of wanted) {
      const full = createTable(columns);
      const part = createTable(columns);
      const own = createTable(columns);
      const opened = createTable(columns);
      for (let round = 0; round < rounds; round += 1) {
        const from = round % all.length;
        const turn = [...all.slice(from), ...all.slice(0, from)];
        const measure = async (table: Table, how: (name: string) => How = () => ({})): Promise<Map<string, number>> => {
          const rates = new Map<string, number>();
          for (const [name, candidate] of turn) {
            const [before, since] = [cpuSeconds(candidate.pid), performance.now()];
            const load = await logged(targetOf(candidate, way), { connections, seconds, folder, ...how(name) });
            const busy = ((cpuSeconds(candidate.pid) - before) / (performance.now() - since)) * 100_000;
            table.note(name, [load.perSecond, busy, load.p50Ms, load.p99Ms, load.failed]);
            rates.set(name, load.perSecond);
          }
          return rates;
        };
        const saturated = await measure(full);
        const least = Math.min(...saturated.values());
        await measure(part, () => ({ perSecond: partialShare * least }));
        await measure(own, (name) => ({ perSecond: partialShare * (saturated.get(name) ?? least) }));
        await measure(opened, () => ({ isOpening: true }));
      }
      const to = way === "https" ? "TLS to the provider, " : "";
      report(`proxy, ${to}1 KiB, ${connections} connections`, { full, part, own, opened });
    }
  } finally {
    await Promise.all(all.map(([, { stop }]) => stop()));
  }
}

type How = Pick<Load, "perSecond" | "isOpening">;

interface Tables {
  readonly full: Table;
  readonly part: Table;
  readonly own: Table;
  readonly opened: Table;
}

function report(what: string, { full, part, own, opened }: Tables): void {
  const peers = { nginx: "nginx", beside: "beside" };
  const show = (table: Table, load: string, of: Pick<RecordedColumn, "column" | "better">) => {
    say(`\n${what}, ${load}; load average ${loadAverage()}`);
    say(table.text({ peers: ["nginx"], compared: of.column }));
    recordColumn(table, { name: `${what}, ${load}`, own: "latchkey", peers, ...of });
  };
  const [rate, slow] = [{ column: "req/s", better: "higher" } as const, { column: "p99 ms", better: "lower" } as const];
  show(full, "saturated", rate);
  show(full, "saturated, p99", slow);
  show(part, `at ${partialShare * 100} % of the slowest, p99`, slow);
  show(own, `at ${partialShare * 100} % of its own saturation, p99`, slow);
  show(opened, "from the first connection on, p99", slow);
}

/** At saturation and 70 % of it, without and with samples of what ran: samples make requests slower. */
async function trace({ folder, origins, seconds }: Bench, { way, connections }: Cell): Promise<void> {
  const sidecar = await startSidecar({ folder, origins }, { store: "store", loaded: probe });
  try {
    const target = targetOf(sidecar, way);
    await warm(target, folder);
    let saturated: number | undefined;
    for (const [title, asked] of [
      ["saturated", "begin"],
      ["at 70 %", "begin"],
      ["saturated, with samples", "sample"],
    ] as const) {
      const rate = saturated === undefined || title !== "at 70 %" ? {} : { perSecond: saturated * partialShare };
      await sidecar.ask(asked);
      const before = cpuOfThreads(sidecar.pid);
      const load = await logged(target, { connections, seconds, folder, ...rate });
      const threads = cpuOfThreads(sidecar.pid);
      const recorded = await sidecar.ask<Recorded>("end");
      saturated ??= load.perSecond;
      say(`\n${way} origin, ${connections} connections, ${title}; load average ${loadAverage()}`);
      reportTrace(load, recorded);
      const used = [...threads].map(([name, ms]) => [name, ms - (before.get(name) ?? 0)] as const);
      say(`CPU ms by thread: ${used.map(([name, ms]) => `${name} ${ms.toFixed(0)}`).join(", ")}`);
    }
  } finally {
    await sidecar.stop();
  }
}

const say = (line: string) => void process.stdout.write(`${line}\n`);
