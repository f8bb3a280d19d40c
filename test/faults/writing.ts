import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { onTestFinished } from "vitest";
import { createLog } from "../../src/base/log.ts";
import { createMetrics } from "../../src/base/metrics/metrics.ts";
import { compileCache } from "../support/runner/compile-cache.ts";
import { testProgram } from "../support/runner/program.ts";
import type { Account, Found } from "./account.ts";
import { openLocation } from "./open.ts";
import type { Said, WriterOptions } from "./workload.ts";

const writer = testProgram("writer");

/** A writer in its own process, to be killed. */
export interface Writing {
  /** The number of lines of this kind. */
  count(said: Said["said"]): number;
  /** Resolves once it holds; rejects when the writer ends before. */
  until(holds: (writing: Writing) => boolean): Promise<void>;
  /** Kills at once; resolves when the process is dead and its output recorded. */
  kill(): Promise<void>;
  /** Resolves once it has closed its store and ended. */
  stop(): Promise<void>;
  /** Why commits were refused, and reads failed: the last reason. */
  lastReason(): string | undefined;
  readonly stderr: () => string;
}

interface WritingOptions extends WriterOptions {
  /** Records all of its output. */
  readonly account: Account;
  readonly env?: Readonly<Record<string, string>>;
}

export function startWriting({ account, env = {}, ...options }: WritingOptions): Writing {
  const child = spawn(process.execPath, [writer, JSON.stringify(options)], {
    env: { PATH: process.env["PATH"], NODE_COMPILE_CACHE: compileCache, ...env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const counts = new Map<Said["said"], number>();
  const waiting = new Set<() => void>();
  let lastReason: string | undefined;
  let stderr = "";
  let rest = "";
  let isOver = false;

  const look = () => {
    for (const waiter of waiting) waiter();
  };
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const said = JSON.parse(line) as Said;
      account.note(said);
      counts.set(said.said, (counts.get(said.said) ?? 0) + 1);
      if ("why" in said) lastReason = said.why;
    }
    look();
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  // A writer that is dead takes no end of its input.
  child.stdin.on("error", () => {});
  const over = new Promise<void>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", () => {
      isOver = true;
      look();
      resolve();
    });
  });

  const writing: Writing = {
    count: (said) => counts.get(said) ?? 0,
    until: (holds) =>
      new Promise((resolve, reject) => {
        const waiter = () => {
          const holdsNow = holds(writing);
          if (!holdsNow && !isOver) return;
          waiting.delete(waiter);
          if (holdsNow) resolve();
          else reject(new Error(`the writer ended (${child.exitCode ?? child.signalCode}) too early:\n${stderr}`));
        };
        waiting.add(waiter);
        waiter();
      }),
    async kill() {
      child.kill("SIGKILL");
      await over;
    },
    async stop() {
      child.stdin.end();
      await over;
      if (child.exitCode !== 0)
        throw new Error(`the writer ended with ${child.exitCode ?? child.signalCode}:\n${stderr}`);
    },
    lastReason: () => lastReason,
    stderr: () => stderr,
  };
  return writing;
}

interface ReadOptions {
  /** Log lines from this level on count as failures; default: "warn". */
  readonly level?: "warn" | "error";
}

/** Opens a store, reads all of it, and closes it; complaints of the store or its scrub are failures. */
export async function readStore(location: string, { level = "warn" }: ReadOptions = {}): Promise<Found> {
  const complaints: string[] = [];
  const log = createLog({ level, format: "json", write: (line) => void complaints.push(line) });
  const store = await openLocation(location, { log, metrics: createMetrics() });
  try {
    const entries = await store.list({ from: "\x01", to: "\u{10ffff}", limit: 10_000_000 });
    for await (const { damaged } of store.scrub()) complaints.push(...damaged);
    if (complaints.length > 0) throw new Error(`the store complains: ${complaints.join("\n")}`);
    return { entries, revision: store.status().revision };
  } finally {
    await store.close();
  }
}

interface Moment {
  readonly random: () => number;
  readonly writing: Writing;
}

/** Waits for a moment to be killed in: mostly under load, now and then while the store is being opened. */
export async function someMoment({ random, writing }: Moment): Promise<void> {
  if (random() < 0.25) await sleep(100 + random() * 300);
  else await underLoad({ random, writing });
}

export async function underLoad({ random, writing }: Moment): Promise<void> {
  const enough = 50 + random() * 1_000;
  await writing.until(() => writing.count("done") > enough);
  await sleep(random() * 5);
}
