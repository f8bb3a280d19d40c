import type { LogRetention } from "../broker/log-retention.ts";
import { millisecondsIn } from "../core/duration.ts";
import type { ConfigFile } from "./file.ts";
import type { Refuse } from "./values.ts";

export interface RetentionConfig extends LogRetention {
  /** Time to keep webhooks and their forwards after the delivery has ended. */
  readonly deliveriesMs: number;
  /** Time to keep deleted records, and records that no run has touched. */
  readonly recordsMs: number;
}

const weekMs = 7 * 86_400_000;

export const defaultRetention: RetentionConfig = {
  maxAgeMs: weekMs,
  maxCount: 100_000,
  deliveriesMs: weekMs,
  recordsMs: 60 * 86_400_000,
};

const minAgeMs = 3_600_000;
const maxAgeMs = 366 * 86_400_000;

export function retentionOf({
  file: { retention = {} },
  refuse,
}: {
  file: ConfigFile;
  refuse: Refuse;
}): RetentionConfig {
  function age(name: "logs" | "deliveries" | "records", fallback: number): number {
    const ms = millisecondsIn(retention[name] ?? "") ?? fallback;
    if (ms < minAgeMs || ms > maxAgeMs) refuse(`retention.${name}: must be from 1h to 366d`);
    return ms;
  }
  return {
    maxAgeMs: age("logs", defaultRetention.maxAgeMs),
    maxCount: retention.log_count ?? defaultRetention.maxCount,
    deliveriesMs: age("deliveries", defaultRetention.deliveriesMs),
    recordsMs: age("records", defaultRetention.recordsMs),
  };
}
