import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { availableParallelism } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

/** Load and origin share the first core; the measured program has the second to itself. */
export const cores = { load: 0, candidate: 1 } as const;

export const isThere = (program: string): boolean => spawnSync("which", [program]).status === 0;

const canPin = isThere("taskset") && availableParallelism() > 1;

/** The start of a command line that pins a program to one core. */
export const pinnedTo = (core: number): string[] => (canPin ? ["taskset", "-c", String(core)] : []);

/** Pins this process with all its threads. */
export function pinSelf(): void {
  if (canPin) spawnSync("taskset", ["-a", "-c", "-p", String(cores.load), String(process.pid)]);
  else process.stdout.write("no taskset, or one core: load and candidate are in each other's way\n");
}

/** A child of the bench, measured from outside. */
export interface Measured {
  readonly pid: number;
  stop(): Promise<void>;
}

/** Afterwards the process is killed, so that the bench always ends. */
const stopWithinMs = 5_000;

interface Starting {
  readonly command: readonly string[];
  readonly core: number;
  /** The process is ready once all of them accept connections. */
  readonly ports: readonly number[];
}

/** Throws when it ends before it takes connections. */
export async function startProcess({ command, core, ports }: Starting): Promise<Measured> {
  const [program = "", ...args] = [...pinnedTo(core), ...command];
  const child = spawn(program, args, {
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, GOMAXPROCS: "1" },
  });
  const measured = measuredOf(child);
  for (const port of ports) {
    for (let tried = 0; !(await takesConnections(port)); tried += 1) {
      if (child.exitCode === null && tried < 100) await sleep(50);
      else {
        await measured.stop();
        throw new Error(`${command[0]} does not listen`);
      }
    }
  }
  return measured;
}

/** However we end. */
export function endWithUs(pid: number | undefined): void {
  if (pid !== undefined) started.add(pid);
  if (started.size > 1) return;
  process.once("exit", () => {
    for (const one of started) {
      try {
        process.kill(one, "SIGKILL");
      } catch {
        // Gone already.
      }
    }
  });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => process.exit(1));
}

const started = new Set<number>();

function measuredOf(child: ChildProcess): Measured {
  endWithUs(child.pid);
  // A number may be given to another process once it is free.
  child.once("exit", () => started.delete(child.pid ?? 0));
  return {
    pid: child.pid ?? 0,
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGTERM");
      const late = setTimeout(() => child.kill("SIGKILL"), stopWithinMs);
      await gone;
      clearTimeout(late);
    },
  };
}

function takesConnections(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });
}

/** Ports that were free a moment ago, and that no other process is likely to take. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, "127.0.0.1"));
  const ports: number[] = [];
  for (const server of servers) {
    if (!server.listening) await new Promise((resolve) => server.once("listening", resolve));
    const address = server.address();
    ports.push(typeof address === "object" && address !== null ? address.port : 0);
  }
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

/** The kernel counts in hundredths of a second. */
const ticksPerSecond = 100;

/** CPU seconds of all threads, user and kernel, since the process started. */
export const cpuSeconds = (pid: number): number => cpuSecondsIn(`/proc/${pid}/stat`);

/** CPU seconds of the thread with the event loop. */
export const mainThreadSeconds = (pid: number): number => cpuSecondsIn(`/proc/${pid}/task/${pid}/stat`);

/** CPU milliseconds of the threads of a process since they started, by their names. */
export function cpuOfThreads(pid: number): ReadonlyMap<string, number> {
  const used = new Map<string, number>();
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const at = (file: string) => readFileSync(`/proc/${pid}/task/${thread}/${file}`, "utf8");
    const name = thread === String(pid) ? "main" : at("comm").trim();
    used.set(name, (used.get(name) ?? 0) + Number(at("schedstat").split(" ")[0]) / 1e6);
  }
  return used;
}

function cpuSecondsIn(file: string): number {
  const [, rest = ""] = readFileSync(file, "utf8").split(") ");
  const fields = rest.split(" ");
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

export function memoryMb(pid: number, line: "VmRSS" | "VmHWM"): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`${line}:\\s+(\\d+)`).exec(status)?.[1] ?? 0) / 1_024;
}

/** Resets `VmHWM`, the peak of memory. */
export function forgetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, "5");
}

/** Descriptors that one process may have open. */
export function descriptorLimit(): number {
  const limits = readFileSync("/proc/self/limits", "utf8");
  return Number(/Max open files\s+(\d+)/.exec(limits)?.[1] ?? 1_024);
}

export const loadAverage = (): string => readFileSync("/proc/loadavg", "utf8").split(" ").slice(0, 3).join(" ");
