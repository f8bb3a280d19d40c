import { type ChildProcess, spawn } from "node:child_process";
import { onTestFinished } from "vitest";
import { compileCache } from "../runner/compile-cache.ts";
import { programFile } from "../runner/program.ts";
import { testVariables } from "./harness.ts";

/** latchkey in its own process, as an operator starts it. */
export interface Running {
  readonly child: ChildProcess;
  readonly stdout: () => string;
  readonly stderr: () => string;
  /** Resolves with the exit code, or with the signal that ended it. */
  readonly exited: Promise<number | NodeJS.Signals>;
  /** Waits until a line of its output has this in it; rejects when it ends before. */
  says(text: string): Promise<void>;
  /** The address of a listener, once it listens. */
  address(door: "data" | "public" | "control" | "ops"): string;
}

interface LaunchOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  readonly cwd?: string;
  /** The program to run instead of latchkey's own. */
  readonly program?: string;
  /** Options of `prlimit` that it runs under. */
  readonly limits?: readonly string[];
  /** The command that starts it, for a namespace of its own: its last arguments are the program's. */
  readonly within?: readonly string[];
  /** Keeps the process running after the test; the caller ends it. */
  readonly outlivesTest?: boolean;
}

/** The settings that `serve` needs, with its own ports. An undefined variable is removed. */
export function launch(
  args: readonly string[],
  { env = {}, folder, cwd, program = programFile, limits, within = [], outlivesTest = false }: LaunchOptions,
): Running {
  const variables: Record<string, string | undefined> = {
    PATH: process.env["PATH"],
    HOME: process.env["HOME"],
    NODE_COMPILE_CACHE: compileCache,
    ...testVariables(folder),
    ...env,
  };
  const given = Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== undefined));
  const wrapper = [...within, ...(limits === undefined ? [] : ["prlimit", ...limits])];
  const [command = "", ...words] = [...wrapper, process.execPath, program];
  const child = spawn(command, [...words, ...args], { env: given, cwd, stdio: ["ignore", "pipe", "pipe"] });
  let stdout = "";
  let stderr = "";
  const listeners = new Set<() => void>();
  const tell = () => {
    for (const listener of listeners) listener();
  };
  child.stdout?.on("data", (chunk) => {
    stdout += chunk;
    tell();
  });
  child.stderr?.on("data", (chunk) => {
    stderr += chunk;
    tell();
  });
  const exited = new Promise<number | NodeJS.Signals>((resolve) => {
    child.once("close", (code, signal) => {
      resolve(code ?? signal ?? "SIGKILL");
      tell();
    });
  });
  if (!outlivesTest) onTestFinished(() => void child.kill("SIGKILL"));
  return {
    child,
    stdout: () => stdout,
    stderr: () => stderr,
    exited,
    says: (text) =>
      new Promise((resolve, reject) => {
        const look = () => {
          const said = `${stdout}${stderr}`.includes(text);
          const ended = child.exitCode !== null || child.signalCode !== null;
          if (said || ended) listeners.delete(look);
          if (said) resolve();
          else if (ended) {
            reject(new Error(`it ended without saying ${JSON.stringify(text)}:\n${stdout}${stderr}`));
          }
        };
        listeners.add(look);
        look();
      }),
    address(door) {
      const line = stdout.split("\n").find((one) => one.includes('"listening"') && one.includes(`"door":"${door}"`));
      if (line === undefined) throw new Error(`the ${door} door does not listen`);
      return (JSON.parse(line) as { address: string }).address;
    },
  };
}

/** Like `launch(["serve"])`; resolves once it is ready. */
export async function serveInProcess(options: LaunchOptions): Promise<Running> {
  const running = launch(["serve"], options);
  await running.says('"phase":"ready"');
  return running;
}
