/**
 * A process that commits to a store as fast as it can. It prints each commit before it starts and its outcome
 * afterwards, each line at once, so that nothing printed is lost by a kill. It ends when its input ends.
 */
import { writeSync } from "node:fs";
import { flushCompileCache } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import { createLog } from "../../src/base/log.ts";
import { createMetrics } from "../../src/base/metrics/metrics.ts";
import { type Backend, StaleWrite, StoreUnavailable } from "../../src/store/contract.ts";
import { openLocation } from "./open.ts";
import { createWorkload, type Said, valueFrom, type Work, type WriterOptions } from "./workload.ts";

// It may be killed at any time: the next one starts faster nevertheless.
flushCompileCache();
const options = JSON.parse(process.argv[2] ?? "{}") as WriterOptions;
const workload = createWorkload(options);
const log = createLog({ level: "warn", format: "json", write: (line) => void writeSync(2, line) });
let isEnding = false;
process.stdin.on("end", () => {
  isEnding = true;
});
process.stdin.resume();

function say(line: Said): void {
  let bytes = Buffer.from(`${JSON.stringify(line)}\n`);
  while (bytes.length > 0) bytes = bytes.subarray(writeSync(1, bytes));
}

async function attempt(store: Backend, work: Work): Promise<void> {
  const { id, changes, conditions } = work;
  say({ said: "try", work });
  try {
    const revision = await store.commit(
      changes.map(({ key, size, expect }) => ({
        key,
        value: size === undefined ? undefined : valueFrom(id, size),
        ...(expect === undefined ? {} : { expect }),
      })),
      conditions,
    );
    say({ said: "done", id, revision });
    workload.learn(work, revision);
  } catch (error) {
    if (error instanceof StaleWrite) {
      say({ said: "stale", id });
    } else if (error instanceof StoreUnavailable) {
      say({ said: "unavailable", id, why: chainOf(error) });
      await sleep(20);
    } else {
      throw error;
    }
  }
}

async function call(store: Backend): Promise<void> {
  while (!isEnding) await attempt(store, workload.next());
}

async function read(store: Backend): Promise<void> {
  while (!isEnding) {
    const key = workload.key();
    try {
      await store.get(key);
      await store.list({ from: key, to: "data0", limit: 5 });
      say({ said: "read" });
    } catch (error) {
      say({ said: "unread", why: chainOf(error) });
    }
    await sleep(5);
  }
}

function chainOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}: ${chainOf(error.cause)}`;
}

const store = await openLocation(options.store, { log, metrics: createMetrics() });
say({ said: "open", revision: store.status().revision });
await Promise.all([read(store), ...Array.from({ length: options.callers }, () => call(store))]);
await store.close();
say({ said: "closed" });
