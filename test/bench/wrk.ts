import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { isThere } from "./proxy-process.ts";

export interface Outcome {
  readonly requests: number;
  readonly seconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly failed: number;
}

interface WrkRun {
  readonly port: number;
  readonly connections: number;
  readonly seconds: number;
  readonly folder: string;
  /** The Lua script that makes the requests. */
  readonly script: string;
  /** The start of its command line. */
  readonly pinned?: readonly string[];
}

/** It takes less of the shared cores than a client in Node. */
export const hasWrk = isThere("wrk");

const run = promisify(execFile);

export async function runWrk({ port, connections, seconds, folder, script, pinned = [] }: WrkRun): Promise<Outcome> {
  const path = join(folder, `wrk-${port}.lua`);
  writeFileSync(
    path,
    `${script}
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('\\n{"requests":%d,"seconds":%f,"p50Ms":%f,"p99Ms":%f,"failed":%d}\\n', summary.requests,
    summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    e.connect + e.read + e.write + e.status + e.timeout))
end
`,
  );
  const [program = "", ...args] = [...pinned, "wrk", "-t1", `-c${connections}`, `-d${seconds}s`, "-s", path];
  const { stdout } = await run(program, [...args, `http://127.0.0.1:${port}`]);
  return JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as Outcome;
}
