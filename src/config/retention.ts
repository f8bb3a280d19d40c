import type { LogRetention } from "../broker/log-retention.ts";
import { millisecondsIn } from "./duration.ts";
import type { ConfigFile } from "./file.ts";
import type { Refuse } from "./values.ts";

export type Retention = LogRetention;

export const defaultRetention: Retention = { maxAgeMs: 7 * 86_400_000, maxCount: 100_000 };

const minAgeMs = 3_600_000;
const maxAgeMs = 366 * 86_400_000;

export function retentionOf({ file: { retention = {} }, refuse }: { file: ConfigFile; refuse: Refuse }): Retention {
  const ageMs = millisecondsIn(retention.logs ?? "") ?? defaultRetention.maxAgeMs;
  if (ageMs < minAgeMs || ageMs > maxAgeMs) refuse("retention.logs: must be from 1h to 366d");
  return { maxAgeMs: ageMs, maxCount: retention.log_count ?? defaultRetention.maxCount };
}
