import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ConnectionDescription } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { retryDelayMs } from "../../connections/connection-description.ts";
import type { DescribeFailure } from "../../credentials/provider-requests.ts";

interface DescribeAttempt {
  /** The description before the attempt. */
  readonly before: ConnectionDescription;
  /** The values found so far, this attempt's included. */
  readonly found: ConnectionDescription["found"];
  readonly failures: readonly DescribeFailure[];
  /** The credentials are dead, so that time alone does not help. */
  readonly isDead: boolean;
  readonly nowMs: number;
}

interface AttemptPlan {
  readonly outcome: "complete" | "failed" | "given_up";
  /** The number of attempts, this one included. */
  readonly attempts: number;
  /** The description to store; undefined: nothing is left to remember. */
  readonly next: ConnectionDescription | undefined;
}

const longestWaitMs = 86_400_000;

/** Decides after an attempt whether and when the provider is asked again. */
export function planAfter({ before, found, failures, isDead, nowMs }: DescribeAttempt): AttemptPlan {
  const [failure] = failures;
  const attempts = before.attempts + 1;
  const isRefused = failures.every(({ status }) => status !== undefined && isRefusal(status));
  const delayMs = failure === undefined || isDead ? undefined : retryDelayMs(attempts, isRefused);
  const rest: ConnectionDescription = { ...before, found };
  delete rest.dueAt;
  if (delayMs === undefined) {
    const next = Object.keys(found).length === 0 ? undefined : rest;
    return { outcome: failure === undefined ? "complete" : "given_up", attempts, next };
  }
  const waitMs = Math.max(delayMs, Math.min(failure?.retryAfterMs ?? 0, longestWaitMs));
  return { outcome: "failed", attempts, next: { ...rest, attempts, dueAt: timestampFromMs(nowMs + waitMs) } };
}

/** Whether the provider understood the request and refused it: it will refuse it again. */
const isRefusal = (status: number): boolean => status >= 400 && status < 500 && ![408, 425, 429].includes(status);
