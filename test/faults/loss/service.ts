import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { compileCache } from "../../support/runner/compile-cache.ts";
import { programFile, testProgram } from "../../support/runner/program.ts";
import { secretKey, testVariables } from "../../support/sidecar/harness.ts";

const program = testProgram("replica");

/** A latchkey in its own process, for one lifetime. */
export interface Life {
  readonly data: string;
  readonly ops: string;
  readonly control: string;
  /** Its last warnings. */
  said(): string;
  /** Why it ended, if it was not killed. */
  readonly ended: Promise<string>;
  setClock(offsetMs: number): void;
  kill(): Promise<void>;
  stop(): Promise<void>;
}

interface LifeOptions {
  readonly folder: string;
  /** A variable that is undefined is removed. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clockOffsetMs: number;
  /** Runs this command of latchkey, as an operator does, instead of a program whose clock and leases can be set. */
  readonly command?: "serve" | "edge";
}

/** A program that is broken off leaves no process behind. */
const living = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of living) child.kill("SIGKILL");
});

/** Begins one. It may be killed before it is ready. */
export function beginLife({ folder, env, clockOffsetMs, command }: LifeOptions): Beginning {
  const child = spawn(process.execPath, command === undefined ? [program] : [programFile, command], {
    env: {
      PATH: process.env["PATH"],
      NODE_COMPILE_CACHE: compileCache,
      ...testVariables(folder),
      CLOCK_OFFSET_MS: String(clockOffsetMs),
      ...env,
    },
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  living.add(child);
  let said = "";
  const note = (text: string) => {
    said = `${said}${text}`.slice(-4_000);
  };
  child.stderr?.setEncoding("utf8").on("data", note);
  // A message to a process that was just killed is lost.
  child.on("error", () => {});
  const over = once(child, "exit").then(() => living.delete(child));
  const addresses = new Map<string, string>();
  const ready = new Promise<boolean>((resolve) => {
    let text = "";
    child.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
      const lines = (text + chunk).split("\n");
      text = lines.pop() ?? "";
      for (const line of lines) {
        if (!line.includes('"level":"info"')) note(`${line}\n`);
        const { door, address, phase } = JSON.parse(line) as Readonly<Record<string, string>>;
        if (door !== undefined && address !== undefined) addresses.set(door, address);
        if (phase === "ready") resolve(true);
      }
    });
    void over.then(() => resolve(false));
  });
  const kill = async () => {
    child.kill("SIGKILL");
    await over;
  };
  const life = (): Life => ({
    data: addresses.get("data") ?? "",
    ops: addresses.get("ops") ?? "",
    control: addresses.get("control") ?? "",
    said: () => said,
    ended: over.then(() => `it ended (${child.exitCode ?? child.signalCode}):\n${said}`),
    setClock: (offsetMs) => void (child.connected && child.send(offsetMs, () => {})),
    kill,
    async stop() {
      child.kill("SIGTERM");
      await over;
    },
  });
  return {
    kill,
    child,
    async ready() {
      if (!(await ready)) throw new Error(`a sidecar ended before it was ready:\n${said}`);
      return life();
    },
  };
}

export interface Beginning {
  readonly child: ChildProcess;
  ready(): Promise<Life>;
  kill(): Promise<void>;
}

/** Calls the JSON routes with the environment's key. */
export async function restOf({ data }: Pick<Life, "data">, method: string, path: string, body?: unknown) {
  const response = await fetch(`${data}${path}`, {
    method,
    headers: { authorization: `Bearer ${secretKey}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return JSON.parse(text);
}

/** The number of waiting deliveries; undefined if the process does not answer. */
export const waitingAt = (life: Pick<Life, "ops">): Promise<number | undefined> =>
  metricAt(life, "latchkey_outbox_forwards");

export async function metricAt({ ops }: Pick<Life, "ops">, name: string): Promise<number | undefined> {
  try {
    const text = await (await fetch(`${ops}/metrics`)).text();
    const [, value] = new RegExp(`^${name} (\\d+)$`, "m").exec(text) ?? [];
    return value === undefined ? undefined : Number(value);
  } catch {
    // It was killed in the meantime.
    return undefined;
  }
}
