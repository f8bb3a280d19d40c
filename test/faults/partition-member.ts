/** A process that shares work over the store of its first argument. It answers its parent's questions. */
import { createLog } from "../../src/base/log.ts";
import { createMetrics } from "../../src/base/metrics/metrics.ts";
import type { HeldPartition } from "../../src/broker/partitions/held-partition.ts";
import { openPartitions } from "../../src/broker/partitions/partitions.ts";
import { StaleWrite } from "../../src/store/contract.ts";
import { openPostgresStore } from "../../src/store/postgres/postgres.ts";

const log = createLog({ level: "info", format: "json", write: (line) => void process.stderr.write(line) });
const metrics = createMetrics();
const store = await openPostgresStore({ url: process.argv[2] ?? "", log, metrics });
const partitions = await openPartitions({ store, isShared: true, world: { now: Date.now, log, metrics } });
let kept: readonly HeldPartition[] = [];

/** Commits under each kept partition's fence; returns how many were refused. */
async function writeUnderKept(): Promise<number> {
  const refused = kept.map(async (partition) => {
    try {
      await store.commit([{ key: `test\0${partition.number}`, value: Buffer.from("") }], [partition.fence]);
      return false;
    } catch (error) {
      if (!(error instanceof StaleWrite) || !partition.isLostBy(error)) throw error;
      return true;
    }
  });
  return (await Promise.all(refused)).filter(Boolean).length;
}

const answers: Record<string, () => unknown> = {
  held: () => partitions.all().map(({ number }) => number),
  /** What it may begin work for. */
  working: () => partitions.all().flatMap((one) => (one.remainingMs() > 0 ? [one.number] : [])),
  keep() {
    kept = partitions.all();
    return kept.length;
  },
  write: writeUnderKept,
  retire: () => partitions.retire(),
};

await partitions.start();
process.on("message", async (question: string) => {
  process.send?.({ question, answer: await answers[question]?.() });
});
process.send?.({ question: "ready" });
