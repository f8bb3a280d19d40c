import { execFile } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
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
}

export interface Load {
  readonly connections: number;
  readonly seconds: number;
  /** Requests a second in all; without it, each connection sends its next request at once. */
  readonly perSecond?: number;
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

/**
 * Sends requests with h2load, which logs each of them: start and duration in microseconds. All of them name one
 * connection, since h2load sends the same fields with each.
 */
export async function logged(target: Target, { connections, seconds, perSecond, folder }: Load): Promise<LoggedLoad> {
  const log = join(folder, "requests.tsv");
  const fields = [...target.fields, ["Connection-Id", target.ids[0]] as const];
  const args = [
    ...["--h1", "-t", "1", "-c", String(connections), "-D", String(seconds), "--log-file", log],
    ...(perSecond === undefined ? [] : ["--rps", String(Math.max(1, perSecond / connections))]),
    ...fields.flatMap(([name, value]) => ["-H", `${name}: ${value}`]),
    `http://127.0.0.1:${target.port}${target.path}`,
  ];
  rmSync(log, { force: true });
  const [program = "", ...rest] = [...pinnedTo(cores.load), "h2load", ...args];
  await run(program, rest, { maxBuffer: 16 * 1024 * 1024 });
  return summed(readFileSync(log, "utf8"));
}

function summed(text: string): LoggedLoad {
  const requests: Logged[] = [];
  let failed = 0;
  for (const line of text.split("\n")) {
    const [start, status, micros] = line.split("\t");
    if (start === undefined || micros === undefined) continue;
    if (status !== "200") failed += 1;
    else requests.push({ sentAtMs: Number(start) / 1_000, tookMs: Number(micros) / 1_000 });
  }
  const times = requests.map(({ tookMs }) => tookMs).sort((a, b) => a - b);
  const [from, until] = [requests[0]?.sentAtMs ?? 0, requests.at(-1)?.sentAtMs ?? 0];
  return {
    perSecond: requests.length / Math.max(0.001, (until - from) / 1_000),
    p50Ms: quantile(times, 0.5),
    p99Ms: quantile(times, 0.99),
    failed,
    requests,
  };
}
