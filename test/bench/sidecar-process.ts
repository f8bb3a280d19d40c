import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { LoopLook } from "./loop-probe.ts";

/** The program that `npm run build` makes of this tree. */
export const builtDist = fileURLToPath(new URL("../../dist/latchkey.js", import.meta.url));

export const secretKey = "lk_bench-secret-key-of-the-environment-dev";

/**
 * The Node options of the manifests beside the heap size: they shorten collections and limit their share of two cores.
 */
export const deployedOptions = "--max-semi-space-size=16 --v8-pool-size=1";

/** What the manifests set for the C library: two heaps for all threads, which give back what is free. */
export const deployedMemory: Readonly<Record<string, string>> = {
  MALLOC_ARENA_MAX: "2",
  MALLOC_TRIM_THRESHOLD_: "131072",
};

/** The environment of the manifests, as far as it concerns speed and memory. */
export const deployed: Readonly<Record<string, string>> = { NODE_OPTIONS: deployedOptions, ...deployedMemory };

/** The built sidecar in its own process, to measure its memory and time alone. */
export interface BenchSidecar {
  readonly pid: number;
  readonly data: string;
  readonly control: string;
  readonly ops: string;
  /** The time from the start of the process until it was ready. */
  readonly readyMs: number;
  /** The most memory it ever had, in MiB. */
  peakMiB(): number;
  /** The process's own memory in MiB, without the store's files, which the kernel maps and can reclaim. */
  ownMiB(): number;
  /** What its event loop did since the last call; needs a probe at the start. */
  look(): Promise<LoopLook>;
  /** Asks the probe that was loaded. */
  ask<T>(question: string): Promise<T>;
  stop(): Promise<void>;
}

interface BenchOptions {
  readonly folder: string;
  /** The built program to start; default: that of this checkout. */
  readonly dist?: string | undefined;
  /** The start of its command line. */
  readonly command?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** An edge has no store and no control listener; default: `serve`. */
  readonly mode?: "serve" | "edge";
  /** Loaded before it: see `loop-probe`. */
  readonly isProbed?: true;
  /** Another probe to load before it, which answers what it is asked. */
  readonly loaded?: string;
}

/** Characters of its log that are shown when it does not start. */
const mostSaid = 10_000;

const probe = fileURLToPath(new URL("loop-probe.ts", import.meta.url));

export async function startBenchSidecar(options: BenchOptions): Promise<BenchSidecar> {
  const { folder, dist = builtDist, command = [], env = {}, mode = "serve" } = options;
  const probed = options.isProbed ? probe : options.loaded;
  const ofStore = {
    LATCHKEY_CONTROL_LISTEN: ":0",
    LATCHKEY_STORE: `level:${folder}`,
    LATCHKEY_SEAL_KEYS: `bench:${Buffer.alloc(32, 1).toString("base64")}`,
    LATCHKEY_SECRET_KEY: secretKey,
  };
  const since = performance.now();
  const loaded = probed === undefined ? [] : ["--import", probed];
  const [program = "", ...args] = [...command, process.execPath, ...loaded, dist, mode];
  const child = spawn(program, args, {
    stdio: ["ignore", "pipe", "inherit", ...(probed === undefined ? [] : (["ipc"] as const))],
    env: {
      PATH: process.env["PATH"],
      LATCHKEY_DATA_LISTEN: ":0",
      LATCHKEY_OPS_LISTEN: ":0",
      ...(mode === "serve" && ofStore),
      ...env,
    },
  });
  const { stdout } = child;
  if (stdout === null) throw new Error("the sidecar has no output");
  const addresses = new Map<string, string>();
  await new Promise<void>((resolve, reject) => {
    let text = "";
    let said = "";
    stdout.on("data", (chunk) => {
      text += chunk;
      if (said.length < mostSaid) said += chunk;
      const lines = text.split("\n");
      text = lines.pop() ?? "";
      for (const line of lines) {
        const { door, address, phase } = JSON.parse(line) as Record<string, string>;
        if (door !== undefined && address !== undefined) addresses.set(door, address);
        if (phase === "ready") resolve();
      }
    });
    child.once("exit", () => reject(new Error(`the sidecar ended; was it built? npm run build\n${said}`)));
  });
  return {
    pid: child.pid ?? 0,
    data: addresses.get("data") ?? "",
    control: addresses.get("control") ?? "",
    ops: addresses.get("ops") ?? "",
    readyMs: performance.now() - since,
    peakMiB: () => memoryOf(child, "VmHWM"),
    ownMiB: () => memoryOf(child, "RssAnon"),
    look: () => asked<LoopLook>(child, "look"),
    ask: (question) => asked(child, question),
    stop: () =>
      new Promise((resolve) => {
        child.once("exit", () => resolve());
        child.kill("SIGTERM");
      }),
  };
}

function asked<T>(child: ChildProcess, question: string): Promise<T> {
  return new Promise((resolve) => {
    // The report of the probe.
    child.once("message", (answer) => resolve(answer as T));
    child.send(question);
  });
}

/** A bare node:http server in its own process: it only answers, with `?bytes=` bytes. */
export interface BarePeer {
  readonly url: string;
  stop(): void;
}

const peerProgram = `
  require("node:http").createServer((request, response) => {
    const bytes = Number(new URL(request.url, "http://x").searchParams.get("bytes"));
    response.end(JSON.stringify("x".repeat(bytes)));
  }).listen(0, "127.0.0.1", function () { console.log(this.address().port); });
`;

export async function startBarePeer(): Promise<BarePeer> {
  const child = spawn(process.execPath, ["-e", peerProgram], { stdio: ["ignore", "pipe", "inherit"] });
  const port = await new Promise<string>((resolve) =>
    child.stdout.once("data", (chunk) => resolve(String(chunk).trim())),
  );
  return { url: `http://127.0.0.1:${port}`, stop: () => void child.kill() };
}

function memoryOf({ pid }: ChildProcess, line: "VmHWM" | "RssAnon"): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Math.round(Number(new RegExp(`${line}:\\s+(\\d+)`).exec(status)?.[1] ?? 0) / 1_024);
}

/** Runs with a folder that is gone afterwards. */
export async function withFolder(run: (folder: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "latchkey-bench-"));
  try {
    await run(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

export function quantile(sorted: readonly number[], q: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? Number.NaN;
}

export const ms = (value: number): string => `${value < 10 ? value.toFixed(2) : value.toFixed(0)} ms`;
