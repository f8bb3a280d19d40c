import { execFile } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Target } from "../proxy-load.ts";
import { cores, pinnedTo } from "../proxy-process.ts";
import { quantile } from "../sidecar-process.ts";

/** One request, as its caller saw it. */
export interface Logged {
  /** When it was due, by the wall clock. */
  readonly sentAtMs: number;
  readonly tookMs: number;
  /** Part of that before its caller sent it. */
  readonly lateMs?: number;
  /** Its status was not 200. */
  readonly isFailed?: boolean;
}

export interface Load {
  readonly connections: number;
  readonly seconds: number;
  /** Requests a second in all; without it, each connection sends its next request at once. */
  readonly perSecond?: number;
  /** Counts from the first connection on; otherwise a second later. */
  readonly isOpening?: true;
  readonly folder: string;
}

export interface LoggedLoad {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly failed: number;
  readonly requests: readonly Logged[];
}

const run = promisify(execFile);

/** Before requests count: connections are opened, and the sidecar's to the provider too. */
const openingMs = 1_000;

/**
 * Sends requests with h2load, which logs each of them: start and duration in microseconds. All of them name one
 * connection, since h2load sends the same fields with each. At a given rate, each connection sends at random times with
 * this mean, and waits for its response: h2load's own rates send what is due each 10 ms in one burst.
 */
export async function logged(target: Target, load: Load): Promise<LoggedLoad> {
  const { connections, seconds, perSecond, folder, isOpening = false } = load;
  const log = join(folder, "requests.tsv");
  const fields = [...target.fields, ["Connection-Id", target.ids[0]] as const];
  const url = `http://127.0.0.1:${target.port}${target.path}`;
  const warmUp = isOpening ? [] : ["--warm-up-time", `${openingMs}ms`];
  const args = [
    ...["--h1", "-t", "1", "-c", String(connections), "--log-file", log],
    ...(perSecond === undefined ? ["-D", String(seconds), ...warmUp] : paced(load, url)),
    ...fields.flatMap(([name, value]) => ["-H", `${name}: ${value}`]),
    ...(perSecond === undefined ? [url] : []),
  ];
  rmSync(log, { force: true });
  const [program = "", ...rest] = [...pinnedTo(cores.load), "h2load", ...args];
  // With select, libev's timers are precise; with epoll, h2load sends what is due each millisecond in one burst.
  const env = { ...process.env, ...(perSecond === undefined ? {} : { LIBEV_FLAGS: "1" }) };
  await run(program, rest, { maxBuffer: 16 * 1024 * 1024, env });
  const requests = requestsIn(readFileSync(log, "utf8"));
  if (perSecond === undefined) return summed(requests);
  const from = (requests[0]?.sentAtMs ?? 0) + openingMs + settlingMs;
  return summed(requests.filter(({ sentAtMs }) => sentAtMs >= from && sentAtMs < from + seconds * 1_000));
}

/** After the last connection of a paced load was opened. */
const settlingMs = 200;

/** Connections open one after the other, so that no two of them send at the same times. */
function paced({ connections, seconds, perSecond = 1, folder }: Load, url: string): string[] {
  const file = join(folder, "times.tsv");
  const meanMs = (connections / perSecond) * 1_000;
  const endMs = openingMs + 2 * settlingMs + seconds * 1_000;
  const lines: string[] = [];
  const random = randomFrom(1);
  const gapMs = () => -meanMs * Math.log(1 - random());
  for (let at = 0; at < endMs; at += gapMs()) lines.push(`${at.toFixed(3)}\t${url}\n`);
  writeFileSync(file, lines.join(""));
  const period = Math.max(1, Math.floor(openingMs / connections));
  return ["-r", "1", "--rate-period", `${period}ms`, "--timing-script-file", file];
}

/** Every candidate gets the same times. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

function requestsIn(text: string): Logged[] {
  const requests: Logged[] = [];
  for (const line of text.split("\n")) {
    const [start, status, micros] = line.split("\t");
    if (start === undefined || micros === undefined) continue;
    requests.push({ sentAtMs: Number(start) / 1_000, tookMs: Number(micros) / 1_000, isFailed: status !== "200" });
  }
  return requests.sort((a, b) => a.sentAtMs - b.sentAtMs);
}

function summed(all: readonly Logged[]): LoggedLoad {
  const requests = all.filter(({ isFailed }) => !isFailed);
  const times = requests.map(({ tookMs }) => tookMs).sort((a, b) => a - b);
  const [from, until] = [requests[0]?.sentAtMs ?? 0, requests.at(-1)?.sentAtMs ?? 0];
  return {
    perSecond: requests.length / Math.max(0.001, (until - from) / 1_000),
    p50Ms: quantile(times, 0.5),
    p99Ms: quantile(times, 0.99),
    failed: all.length - requests.length,
    requests,
  };
}
