import { type ChannelChanges, nothing } from "./move.ts";
import { isResting, oneOf, type Slot } from "./slot.ts";

export interface LossReport {
  readonly kind: "gap" | "silent";
  readonly code: string;
  /** Another in its place may be heard. */
  readonly isToRenew: boolean;
}

/** It has lost something, or may have: the application hears of it, and what is to catch up is run. */
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

/** What was to catch up was asked to. */
export function caughtUp(slot: Slot, id: string): ChannelChanges {
  const found = oneOf(slot, id);
  return found === undefined || found.catchUp === "" ? nothing : { ...nothing, put: [{ ...found, catchUp: "" }] };
}
