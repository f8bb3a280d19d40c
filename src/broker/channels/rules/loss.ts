import { type ChannelChanges, nothing } from "./move.ts";
import { isResting, oneOf, type Slot } from "./slot.ts";

export interface LossReport {
  readonly kind: "gap" | "silent";
  readonly code: string;
  /** A replacement may deliver again. */
  readonly isToRenew: boolean;
}

/** Notes a loss, certain or possible: notifies the application, and schedules the catch-up syncs. */
export function lossFound(
  slot: Slot,
  id: string,
  { kind, code, isToRenew }: LossReport,
  nowMs: number,
): ChannelChanges {
  const found = oneOf(slot, id);
  if (found === undefined) return nothing;
  const isRenewed = isToRenew && isResting(found);
  const after = { ...found, catchUp: code, ...(isRenewed && { dueMs: Math.min(found.dueMs, nowMs) }) };
  return { put: [after], gone: [], told: [{ kind, channel: after, code }] };
}

/** Clears the catch-up after its syncs were requested. */
export function caughtUp(slot: Slot, id: string): ChannelChanges {
  const found = oneOf(slot, id);
  return found === undefined || found.catchUp === "" ? nothing : { ...nothing, put: [{ ...found, catchUp: "" }] };
}
