import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";

/** A limit of the CPU that a process gets: a control group of its own. */
export interface CpuShare {
  add(pid: number): void;
  /** Parts of a core; undefined: no limit. */
  limit(cores: number | undefined): void;
  /** The CPU time that the group took, in seconds. */
  seconds(): number;
  /** Deletes the group; its processes have ended. */
  end(): void;
}

const root = "/sys/fs/cgroup";
const isV2 = existsSync(`${root}/cgroup.controllers`);
/** Short, so that a process is never without its share for long. */
const periodMicros = 20_000;

let made = 0;

export function createCpuShare(): CpuShare {
  made += 1;
  const name = `latchkey-bench-${process.pid}-${made}`;
  const folder = isV2 ? `${root}/${name}` : `${root}/cpu/${name}`;
  const accounts = isV2 ? folder : `${root}/cpuacct/${name}`;
  const write = (file: string, value: string | number) => writeFileSync(`${folder}/${file}`, String(value));
  for (const one of new Set([folder, accounts])) mkdirSync(one);
  return {
    add(pid) {
      write("cgroup.procs", pid);
      if (accounts !== folder) writeFileSync(`${accounts}/cgroup.procs`, String(pid));
    },
    limit(cores) {
      const quota = cores === undefined ? undefined : Math.round(cores * periodMicros);
      if (isV2) {
        write("cpu.max", `${quota ?? "max"} ${periodMicros}`);
        return;
      }
      write("cpu.cfs_period_us", periodMicros);
      write("cpu.cfs_quota_us", quota ?? -1);
    },
    seconds: () =>
      isV2
        ? Number(/usage_usec (\d+)/.exec(readFileSync(`${folder}/cpu.stat`, "utf8"))?.[1] ?? 0) / 1e6
        : Number(readFileSync(`${accounts}/cpuacct.usage`, "utf8")) / 1e9,
    end() {
      for (const one of new Set([folder, accounts])) rmdirSync(one);
    },
  };
}
