/** The process with the store of a model run: it executes requests, and can be killed at any moment. */
import { createLog } from "../../../src/base/log.ts";
import { createMetrics } from "../../../src/base/metrics/metrics.ts";
import {
  type Backend,
  type Entry,
  HistoryLost,
  type Snapshot,
  StaleWrite,
  StoreUnavailable,
  type Watch,
} from "../../../src/store/contract.ts";
import { openLocation } from "../../faults/open.ts";
import type { Answer, Ask, Batch, Told } from "./model-protocol.ts";

const log = createLog({ level: "error", format: "json", write: () => {} });
const watches = new Map<number, Watch>();
const snapshots = new Map<number, Snapshot>();
let opened: Backend | undefined;
let outbox: Told[] = [];

/** Sends all events of a tick in one message, in order: single messages would cost more than the store. */
function tell(one: Told): void {
  outbox.push(one);
  if (outbox.length > 1) return;
  setImmediate(() => {
    process.send?.(outbox);
    outbox = [];
  });
}

function store(): Backend {
  if (opened === undefined) throw new Error("no store is open");
  return opened;
}

async function answer(ask: Ask): Promise<Answer> {
  switch (ask.ask) {
    case "open":
      opened = await openLocation(ask.store, { log, metrics: createMetrics() });
      return { is: "revision", revision: opened.status().revision };
    case "commit":
      return { is: "revision", revision: await store().commit(ask.changes, ask.conditions) };
    case "get":
      return { is: "entries", entries: [await store().get(ask.key)] };
    case "getMany":
      return { is: "entries", entries: await store().getMany(ask.keys) };
    case "list":
      return { is: "entries", entries: await store().list(ask) };
    case "watch": {
      const { watch, from } = ask;
      const held = await store().watch(from, {
        onCommit: (commit) => tell({ watch, commit }),
        onLost: () => tell({ watch, lost: true }),
      });
      watches.set(watch, held);
      return { is: "done" };
    }
    case "unwatch":
      watches.get(ask.watch)?.close();
      watches.delete(ask.watch);
      return { is: "done" };
    case "snapshot": {
      const snapshot = await store().snapshot();
      snapshots.set(ask.snapshot, snapshot);
      return { is: "revision", revision: snapshot.revision };
    }
    case "readSnapshot": {
      const snapshot = snapshots.get(ask.snapshot);
      snapshots.delete(ask.snapshot);
      if (snapshot === undefined) throw new Error("there is no such snapshot");
      const entries: Entry[] = [];
      for await (const page of snapshot.pages()) entries.push(...page);
      await snapshot.close();
      return { is: "entries", entries };
    }
    case "scrub": {
      const entries: Entry[] = [];
      for await (const step of store().scrub()) {
        if (step.damaged.length > 0) throw new Error(`the scrub found damaged: ${step.damaged.join(", ")}`);
        entries.push(...step.entries);
      }
      return { is: "entries", entries };
    }
  }
}

async function settle(id: number, ask: Ask): Promise<void> {
  try {
    tell({ id, answer: await answer(ask) });
  } catch (error) {
    if (error instanceof StaleWrite) tell({ id, answer: { is: "stale", key: error.key, current: error.current } });
    else if (error instanceof HistoryLost) tell({ id, answer: { is: "historyLost", oldest: error.oldest } });
    else if (error instanceof StoreUnavailable) tell({ id, answer: { is: "unavailable", why: chainOf(error) } });
    else tell({ id, defect: error instanceof Error ? (error.stack ?? error.message) : String(error) });
  }
}

function chainOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}: ${chainOf(error.cause)}`;
}

process.on("message", ({ asks }: Batch) => {
  for (const { id, ask } of asks) void settle(id, ask);
});
// The requesting process is gone.
process.on("disconnect", () => process.exit(0));
