import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { StoredForward } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Attempt, Forward_State } from "../../../gen/latchkey/v1/webhook_pb.ts";
import { nextAttempt } from "./retry-schedule.ts";
import type { DeliveryVerdict } from "./verdict.ts";

/** The fields of a forward that an attempt changes. */
export type ForwardUpdate = Partial<
  Pick<
    StoredForward,
    "state" | "stateReason" | "attemptCount" | "attempts" | "scheduleStep" | "nextAttemptAt" | "scheduledFor"
  >
>;

interface EndedAttempt {
  readonly attempt: Attempt;
  readonly verdict: DeliveryVerdict;
  readonly nowMs: number;
  /** Random number from 0 up to 1. */
  readonly random: number;
}

const keptAttempts = 20;

/** Returns what an attempt changes in its forward: delivered, dead, or pending until the next attempt. */
export function updateAfter(value: StoredForward, { attempt, verdict, nowMs, random }: EndedAttempt): ForwardUpdate {
  const tried = { attemptCount: attempt.number, attempts: [...value.attempts, attempt].slice(-keptAttempts) };
  if (verdict.kind === "delivered") return { ...tried, state: Forward_State.DELIVERED, stateReason: "" };
  if (verdict.kind === "impossible") return { ...tried, state: Forward_State.DEAD, stateReason: verdict.reason };
  // The position in the schedule is kept for when the destination is resumed.
  if (verdict.kind === "gone") return { ...tried, stateReason: "gone", nextAttemptAt: timestampFromMs(nowMs) };
  const next = nextAttempt({
    step: value.scheduleStep,
    forMs: value.scheduledFor === undefined ? 0 : timestampMs(value.scheduledFor),
    nowMs,
    retryAfterMs: verdict.retryAfterMs,
    random,
  });
  if (next === undefined) return { ...tried, state: Forward_State.DEAD, stateReason: verdict.reason };
  return {
    ...tried,
    stateReason: verdict.reason,
    scheduleStep: next.step,
    scheduledFor: timestampFromMs(next.forMs),
    nextAttemptAt: timestampFromMs(next.dueMs),
  };
}

/**
 * Returns the updated forward. The due time of a forward that is no longer pending is cleared. Fields are listed: a
 * spread of this many fields takes as long as sending the forward.
 */
export function updated(value: StoredForward, update: ForwardUpdate, nowMs: number): StoredForward {
  const { state = value.state, stateReason = value.stateReason } = update;
  const isWaiting = state === Forward_State.PENDING;
  const after: StoredForward = {
    $typeName: value.$typeName,
    id: value.id,
    environment: value.environment,
    environmentId: value.environmentId,
    integration: value.integration,
    connectionId: value.connectionId,
    type: value.type,
    notificationId: value.notificationId,
    sequence: value.sequence,
    body: value.body,
    address: value.address,
    overrideUrl: value.overrideUrl,
    lane: value.lane,
    number: value.number,
    state,
    stateReason,
    attemptCount: update.attemptCount ?? value.attemptCount,
    attempts: update.attempts ?? value.attempts,
    scheduleStep: update.scheduleStep ?? value.scheduleStep,
    updatedAt: timestampFromMs(nowMs),
  };
  const { createdAt, $unknown: unknown } = value;
  if (createdAt !== undefined) after.createdAt = createdAt;
  if (unknown !== undefined) after.$unknown = unknown;
  const due = isWaiting ? (update.nextAttemptAt ?? value.nextAttemptAt) : undefined;
  if (due !== undefined) after.nextAttemptAt = due;
  const scheduled = isWaiting ? (update.scheduledFor ?? value.scheduledFor) : undefined;
  if (scheduled !== undefined) after.scheduledFor = scheduled;
  return after;
}
