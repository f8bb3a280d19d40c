import { setTimeout as sleep } from "node:timers/promises";
import { createRareWarning } from "../base/rare-warning.ts";
import type { World } from "../base/world.ts";
import { type CollectorConfig, createCollector } from "./collector.ts";

export interface ExporterConfig extends CollectorConfig {
  /** How long a span waits for others. */
  readonly delayMs: number;
  /** Spans that wait; what comes beyond is dropped. */
  readonly maxWaiting: number;
  readonly maxBatch: number;
}

/** Spans on their way to a collector: in batches, one at a time, and never in anybody's way. */
export interface Exporter {
  /** A span in words. */
  add(span: string): void;
  /** Sends what waits. What has not been taken when the time is up is dropped. */
  close(withinMs: number): Promise<void>;
}

/** A batch that a collector would not take so often is dropped: what waits behind it is worth as much. */
const maxTries = 5;
const firstDelayMs = 1_000;
const maxDelayMs = 30_000;

export function createExporter(
  config: ExporterConfig,
  messageOf: (spans: readonly string[]) => string,
  { log, metrics, now }: World,
): Exporter {
  const { delayMs, maxWaiting, maxBatch } = config;
  const collector = createCollector(config);
  const warn = createRareWarning({ log, now });
  let waiting: string[] = [];
  let due: NodeJS.Timeout | undefined;
  let sending: Promise<void> | undefined;
  const closing = new AbortController();

  function add(span: string): void {
    if (waiting.length >= maxWaiting || closing.signal.aborted) {
      drop(1, "more spans end than are taken");
      return;
    }
    waiting.push(span);
    if (waiting.length >= maxBatch) begin();
    else if (sending === undefined) due ??= setTimeout(begin, delayMs).unref();
  }

  function begin(): void {
    clearTimeout(due);
    due = undefined;
    sending ??= sendAll().finally(() => {
      sending = undefined;
      if (waiting.length > 0) due ??= setTimeout(begin, delayMs).unref();
    });
  }

  async function sendAll(): Promise<void> {
    do await sendOne();
    while (waiting.length >= maxBatch || (closing.signal.aborted && waiting.length > 0));
  }

  async function sendOne(): Promise<void> {
    const batch = waiting.slice(0, maxBatch);
    waiting = waiting.slice(maxBatch);
    const message = messageOf(batch);
    for (let tried = 1; ; tried += 1) {
      const outcome = await collector.send(message);
      if (outcome.isTaken) {
        if (outcome.refused > 0) drop(Math.min(outcome.refused, batch.length), "the collector refused some of them");
        return;
      }
      if (!outcome.mayTryAgain || tried === maxTries || closing.signal.aborted) {
        drop(batch.length, outcome.reason);
        return;
      }
      say("spans cannot be delivered", outcome.reason);
      const backoffMs = Math.min(maxDelayMs, firstDelayMs * 2 ** (tried - 1)) * (0.5 + Math.random() / 2);
      const waitMs = Math.min(maxDelayMs, outcome.afterMs ?? backoffMs);
      // Whoever closes does not wait for it: then it is tried at once, for the last time.
      await sleep(waitMs, undefined, { signal: closing.signal, ref: false }).catch(() => {});
    }
  }

  function drop(count: number, reason: string): void {
    metrics.spansDropped.inc(count);
    say("spans are dropped", reason);
  }

  const say = (message: string, reason: string) => warn(message, { door: "spans", peer: collector.peer, reason });

  return {
    add,
    async close(withinMs) {
      closing.abort();
      const late = setTimeout(() => collector.destroy(), withinMs);
      while (sending !== undefined || waiting.length > 0) {
        begin();
        await sending;
      }
      clearTimeout(late);
      collector.destroy();
    },
  };
}
