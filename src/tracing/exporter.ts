import { setTimeout as sleep } from "node:timers/promises";
import { createRareWarning } from "../base/rare-warning.ts";
import type { World } from "../base/world.ts";
import { type CollectorConfig, createCollector } from "./collector.ts";

export interface ExporterConfig extends CollectorConfig {
  /** How long a span waits for a batch to fill. */
  readonly delayMs: number;
  /** The most queued spans; further ones are dropped. */
  readonly maxWaiting: number;
  readonly maxBatch: number;
}

/** Sends spans to a collector in batches, one batch at a time, without delaying requests. */
export interface Exporter {
  /** Queues a span, encoded as text. */
  add(span: string): void;
  /** Sends the queued spans, and drops those that remain when the time is up. */
  close(withinMs: number): Promise<void>;
}

/** A batch is dropped after this many tries: the spans behind it are worth as much. */
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
  let queue: string[] = [];
  let due: NodeJS.Timeout | undefined;
  let sending: Promise<void> | undefined;
  const closing = new AbortController();

  function add(span: string): void {
    if (queue.length >= maxWaiting || closing.signal.aborted) {
      drop(1, "the queue is full");
      return;
    }
    queue.push(span);
    if (queue.length >= maxBatch) startSending();
    else if (sending === undefined) due ??= setTimeout(startSending, delayMs).unref();
  }

  function startSending(): void {
    clearTimeout(due);
    due = undefined;
    sending ??= sendAll().finally(() => {
      sending = undefined;
      if (queue.length > 0) due ??= setTimeout(startSending, delayMs).unref();
    });
  }

  async function sendAll(): Promise<void> {
    do await sendOne();
    while (queue.length >= maxBatch || (closing.signal.aborted && queue.length > 0));
  }

  async function sendOne(): Promise<void> {
    const batch = queue.slice(0, maxBatch);
    queue = queue.slice(maxBatch);
    const message = messageOf(batch);
    for (let tried = 1; ; tried += 1) {
      const outcome = await collector.send(message);
      if (outcome.isTaken) {
        if (outcome.refused > 0) drop(Math.min(outcome.refused, batch.length), "the collector refused some of them");
        return;
      }
      if (!outcome.isRetryable || tried === maxTries || closing.signal.aborted) {
        drop(batch.length, outcome.reason);
        return;
      }
      report("spans not delivered; will retry", outcome.reason);
      const backoffMs = Math.min(maxDelayMs, firstDelayMs * 2 ** (tried - 1)) * (0.5 + Math.random() / 2);
      const waitMs = Math.min(maxDelayMs, outcome.retryAfterMs ?? backoffMs);
      // Closing ends the wait: one last try follows at once.
      await sleep(waitMs, undefined, { signal: closing.signal, ref: false }).catch(() => {});
    }
  }

  function drop(count: number, reason: string): void {
    metrics.spansDropped.inc(count);
    report("spans dropped", reason);
  }

  const report = (message: string, reason: string) => warn(message, { door: "spans", peer: collector.peer, reason });

  return {
    add,
    async close(withinMs) {
      closing.abort();
      const late = setTimeout(() => collector.destroy(), withinMs);
      while (sending !== undefined || queue.length > 0) {
        startSending();
        await sending;
      }
      clearTimeout(late);
      collector.destroy();
    },
  };
}
