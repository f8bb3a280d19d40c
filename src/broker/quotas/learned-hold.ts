import { retryAfterMs } from "../../core/outgoing/retry-after.ts";
import type { QuotaRules } from "../../gen/latchkey/v1/provider_pb.ts";

/** A response, with header names and values in turn. */
export interface QuotaAnswer {
  readonly status: number;
  readonly fields: readonly string[];
}

const longestMs = 3_600_000;

/** Returns how long the provider wants no request, by its response; undefined if it says nothing of that. */
export function holdMsOf(answer: QuotaAnswer, rules: QuotaRules, nowMs: number): number | undefined {
  const { remainingHeader, resetHeader, resetUnit } = rules;
  const reset =
    resetHeader === "" ? undefined : retryAfterMs(fieldOf(answer, resetHeader), resetUnit || "seconds", nowMs);
  if (answer.status === 429) {
    const waitMs = retryAfterMs(fieldOf(answer, "retry-after"), "seconds", nowMs) ?? reset ?? 1_000;
    return Math.min(waitMs, longestMs);
  }
  const remaining = remainingHeader === "" ? undefined : fieldOf(answer, remainingHeader);
  if (remaining === undefined || !/^\d{1,15}$/.test(remaining) || Number(remaining) > 0) return undefined;
  return reset === undefined ? undefined : Math.min(reset, longestMs);
}

function fieldOf({ fields }: QuotaAnswer, wanted: string): string | undefined {
  for (let i = 0; i < fields.length; i += 2) {
    if (fields[i]?.toLowerCase() === wanted.toLowerCase()) return fields[i + 1];
  }
  return undefined;
}
