import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** What a process has in memory, in MiB. */
export interface Memory {
  /** All of it, with its share of the file pages that other processes have, too. */
  readonly pss: number;
  /** Its own: heaps, stacks, compiled code. */
  readonly anonymous: number;
  /** Its share of file pages: nearly all are of Node's binary, which any process of it shares. */
  readonly files: number;
  /** All file pages that it has, shared or not. */
  readonly mapped: number;
}

export function memoryOf(pid: number): Memory {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  const mib = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(text)?.[1] ?? Number.NaN) / 1_024;
  const [rss, pss, anonymous] = [mib("Rss"), mib("Pss"), mib("Anonymous")];
  return { pss, anonymous, files: pss - anonymous, mapped: rss - anonymous };
}

export const textOf = ({ pss, anonymous, files, mapped }: Memory): string =>
  `PSS ${pss.toFixed(1)} MiB (anonymous ${anonymous.toFixed(1)}, files ${files.toFixed(1)} of ${mapped.toFixed(1)} mapped)`;

const settleMs = 2_000;

/** The memory of a Node that does nothing, as often as `looks`. It has ended then: a further process would share pages. */
export async function bareNode(env: Readonly<Record<string, string>>, looks: number): Promise<readonly Memory[]> {
  const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1e9)"], {
    stdio: ["ignore", "ignore", "inherit"],
    env: { PATH: process.env["PATH"], ...env },
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const all: Memory[] = [];
  for (let look = 0; look < looks; look += 1) {
    await sleep(settleMs);
    all.push(memoryOf(child.pid ?? 0));
  }
  child.kill();
  await ended;
  return all;
}
