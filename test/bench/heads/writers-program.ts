/**
 * Writers of one process: each changes its own key again and again and names the revision that it expects. Writes the
 * time of each commit to stdout.
 */
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { createLog } from "../../../src/base/log.ts";
import { createMetrics } from "../../../src/base/metrics/metrics.ts";
import type { Backend } from "../../../src/store/contract.ts";

export interface WritersRequest {
  readonly url: string;
  /** The checkout whose store is used. */
  readonly root: string;
  readonly process: number;
  readonly writers: number;
  readonly environments: number;
  /** Commits a second of each writer; 0: one after another. */
  readonly rate: number;
  readonly seconds: number;
}

export interface WritersResult {
  readonly latenciesMs: readonly number[];
  readonly cpuMs: number;
}

/** Commits of the first second are not counted: connections and plans are made then. */
const warmUpMs = 1_000;
const value = randomBytes(400);

async function write(store: Backend, asked: WritersRequest): Promise<WritersResult> {
  const latenciesMs: number[] = [];
  const startedAt = performance.now();
  const countFrom = startedAt + warmUpMs;
  const until = countFrom + asked.seconds * 1_000;
  let cpu = process.cpuUsage();
  setTimeout(() => {
    cpu = process.cpuUsage();
  }, warmUpMs);
  await Promise.all(
    Array.from({ length: asked.writers }, async (_, writer) => {
      const key = `connection\0env-${writer % asked.environments}\0bench\0${asked.process}-${writer}`;
      const pauseMs = asked.rate === 0 ? 0 : 1_000 / asked.rate;
      let due = startedAt + Math.random() * pauseMs;
      let expect = (await store.get(key))?.revision ?? 0;
      for (;;) {
        if (pauseMs === 0) due = performance.now();
        else await sleep(Math.max(0, due - performance.now()));
        if (due >= until) return;
        // From the time at which it was due, so that a late one counts its delay.
        expect = await store.commit([{ key, value, expect }]);
        if (due >= countFrom) latenciesMs.push(performance.now() - due);
        due += pauseMs;
      }
    }),
  );
  const { user, system } = process.cpuUsage(cpu);
  return { latenciesMs, cpuMs: (user + system) / 1_000 };
}

const asked = JSON.parse(process.argv[2] ?? "") as WritersRequest;
const { openPostgresStore } = (await import(
  `${asked.root}/src/store/postgres/postgres.ts`
)) as typeof import("../../../src/store/postgres/postgres.ts");
const log = createLog({ level: "warn", format: "json", write: (line) => void process.stderr.write(line) });
const store = await openPostgresStore({ url: asked.url, log, metrics: createMetrics() });
process.stdout.write("ready\n");
// All processes begin together.
await new Promise((resolve) => process.stdin.once("data", resolve));
const result = await write(store, asked);
process.stdout.write(`${JSON.stringify(result)}\n`);
await store.close();
process.stdin.destroy();
