import { type ChannelChanges, noChanges } from "./move.ts";
import { findChannel, isIdle, type Slot } from "./slot.ts";

export interface LossReport {
  readonly kind: "gap" | "silent";
  readonly code: string;
  /** A replacement may deliver again. */
  readonly isToRenew: boolean;
}

/** Notes a loss, certain or possible: notifies the application, and schedules the catch-up syncs. */
export function recordLoss(
  slot: Slot,
  id: string,
  { kind, code, isToRenew }: LossReport,
  nowMs: number,
): ChannelChanges {
  const found = findChannel(slot, id);
  if (found === undefined) return noChanges;
  const isRenewed = isToRenew && isIdle(found);
  const after = {
    ...found,
    catchUp: code,
    ...(isRenewed && { dueMs: found.dueMs === 0 ? nowMs : Math.min(found.dueMs, nowMs) }),
  };
  return { put: [after], removed: [], notices: [{ kind, channel: after, code }] };
}

/** Clears the catch-up after its syncs were requested. */
export function recordCaughtUp(slot: Slot, id: string): ChannelChanges {
  const found = findChannel(slot, id);
  return found === undefined || found.catchUp === "" ? noChanges : { ...noChanges, put: [{ ...found, catchUp: "" }] };
}
