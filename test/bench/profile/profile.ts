import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { callerFields, fillStore, kindsThere, usedIds, type Way } from "../proxy-candidates.ts";
import { loadWith, type Target } from "../proxy-load.ts";
import { type Origins, startOrigins } from "../proxy-origins.ts";
import { cpuSeconds, isThere, loadAverage, type Measured, pinSelf } from "../proxy-process.ts";
import { withFolder } from "../sidecar-process.ts";
import { parts, partsOf, type Samples, systemCalls } from "./parts.ts";

export interface ProfileOptions {
  /** Cells: `32`, `256`, `tls32`, `tls256`. */
  readonly only: readonly string[];
  readonly rounds: number;
  /** The duration of each profile. */
  readonly seconds: number;
  /** Another build of the sidecar (its `latchkey.js`), profiled in the same rounds. */
  readonly beside: string | undefined;
}

const cells: readonly (readonly [name: string, way: Way, connections: number])[] = [
  ["32", "http", 32],
  ["256", "http", 256],
  ["tls32", "https", 32],
  ["tls256", "https", 256],
];

interface Profile extends Samples {
  readonly microseconds: number;
}

/** Where the CPU time of a request goes, beside nginx: in the kernel, in Node, in V8's threads, in JavaScript. */
export async function profile(asked: ProfileOptions): Promise<void> {
  for (const program of ["nginx", "perf", "wrk"]) if (!isThere(program)) throw new Error(`this bench needs ${program}`);
  const names = cells.map(([name]) => name);
  const only = asked.only.length > 0 ? asked.only : ["32"];
  const unknown = only.filter((name) => !names.includes(name));
  if (unknown.length > 0) throw new Error(`no part ${unknown.join()}: there are ${names.join()}`);
  const { rounds, seconds } = { rounds: asked.rounds || 3, seconds: asked.seconds || 5 };
  pinSelf();
  // The store refuses files that others may read.
  process.umask(0o077);
  await withFolder(async (folder) => {
    const origins = await startOrigins(folder);
    try {
      for (const cell of cells.filter(([name]) => only.includes(name)))
        await ofCell({ folder, origins, rounds, seconds, beside: asked.beside }, cell);
    } finally {
      await origins.stop();
    }
  });
}

interface Bench extends Pick<ProfileOptions, "rounds" | "seconds" | "beside"> {
  readonly folder: string;
  readonly origins: Origins;
}

async function ofCell(bench: Bench, [name, way, connections]: (typeof cells)[number]): Promise<void> {
  const { folder, origins, rounds, seconds, beside } = bench;
  const wanted = ["latchkey", "beside", "nginx"];
  const stores = { store: undefined, ...(beside === undefined ? {} : { beside }) };
  for (const [store, dist] of Object.entries(stores)) {
    mkdirSync(join(folder, name, store), { recursive: true });
    await fillStore({ origins, folder: join(folder, name), count: 1_000, store, dist });
  }
  const kinds = kindsThere({ origins, folder: join(folder, name), beside }).filter((kind) =>
    wanted.includes(kind.name),
  );
  const started = [];
  try {
    for (const kind of kinds) started.push({ name: kind.name, ...(await kind.start()) });
    const targets = started.map(({ portTo }) => ({
      port: portTo(way),
      path: "/proxy/small",
      fields: callerFields(way),
      ids: usedIds(way, 1_000),
    }));
    for (const target of targets) await loadWith(target, { connections, seconds: 6, folder });
    const profiles = new Map<string, Profile[]>();
    for (let round = 0; round < rounds; round += 1) {
      for (const [i, candidate] of started.entries()) {
        const target = targets[i];
        if (target === undefined) continue;
        const one = await ofLoad(candidate, target, { connections, seconds, folder });
        profiles.set(candidate.name, [...(profiles.get(candidate.name) ?? []), one]);
      }
    }
    say(`\n${way} origin, 1 KiB, ${connections} connections; load average ${loadAverage()}`);
    report(profiles);
  } finally {
    await Promise.all(started.map(({ stop }) => stop()));
  }
}

interface Load {
  readonly connections: number;
  readonly seconds: number;
  readonly folder: string;
}

/** The profile begins after the first second, in which connections are opened. */
async function ofLoad({ pid }: Measured, target: Target, { connections, seconds, folder }: Load): Promise<Profile> {
  const file = join(folder, "perf.data");
  const before = cpuSeconds(pid);
  const loaded = loadWith(target, { connections, seconds: seconds + 2, folder });
  await sleep(1_000);
  const args = ["record", "-q", "-F", "1999", "-g", "-o", file, "-p", String(pid), "--", "sleep", String(seconds)];
  const recorder = spawn("perf", args, { stdio: ["ignore", "ignore", "inherit"] });
  const [code] = await once(recorder, "exit");
  if (code !== 0) throw new Error(`perf record ended with ${code}`);
  const { requests } = await loaded;
  const microseconds = ((cpuSeconds(pid) - before) / requests) * 1e6;
  return { ...partsOf(scriptOf(file)), microseconds };
}

/** Every sample: a line with its thread, then the frames from the innermost outwards. */
function scriptOf(file: string): string {
  const { stdout, status, stderr } = spawnSync("perf", ["script", "-i", file, "-F", "comm,ip,sym,dso"], {
    encoding: "utf8",
    maxBuffer: 1 << 30,
  });
  if (status !== 0) throw new Error(`perf script ended with ${status}: ${stderr.slice(0, 300)}`);
  return stdout;
}

function report(profiles: ReadonlyMap<string, readonly Profile[]>): void {
  const names = [...profiles.keys()];
  const cell = (name: string, value: (profile: Profile) => number) => {
    const all = (profiles.get(name) ?? []).map(value).toSorted((a, b) => a - b);
    const [least = 0, middle = 0, most = 0] = [all[0], all[all.length >> 1], all.at(-1)];
    return `${middle.toFixed(1)} (${least.toFixed(1)} to ${most.toFixed(1)})`;
  };
  const row = (title: string, value: (profile: Profile) => number) =>
    say(`| ${[title, ...names.map((name) => cell(name, value))].join(" | ")} |`);
  const within = ({ samples, microseconds }: Profile, count: number) => (count / samples) * microseconds;
  say(`| CPU µs a request: median, range | ${names.join(" | ")} |`);
  say(`| --- | ${names.map(() => "--:").join(" | ")} |`);
  row("all", ({ microseconds }) => microseconds);
  for (const part of parts) row(part, (one) => within(one, one.ofPart[part]));
  for (const call of systemCalls) row(`of the kernel: ${call}`, (one) => within(one, one.ofCall[call]));
}

const say = (line: string) => void process.stdout.write(`${line}\n`);
