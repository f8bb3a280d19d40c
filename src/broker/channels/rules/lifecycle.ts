import { LifecycleRule_Action as Action } from "../../../gen/latchkey/v1/provider_pb.ts";
import { endChannel } from "./aging.ts";
import { recordLoss } from "./loss.ts";
import { type ChannelChanges, noChanges } from "./move.ts";
import { findChannel, isCurrent, isIdle, isManaged, type Slot } from "./slot.ts";
import { transition } from "./states.ts";

export interface LifecycleNotice {
  readonly id: string;
  readonly action: Action;
  /** The provider's word for it. */
  readonly code: string;
}

/** Applies a provider's notice about a channel itself. */
export function recordNotice(
  slot: Slot,
  { id, action, code }: LifecycleNotice,
  { nowMs, newId }: { readonly nowMs: number; readonly newId: () => string },
): ChannelChanges {
  const found = findChannel(slot, id);
  if (found === undefined || !isManaged(found)) return noChanges;
  switch (action) {
    case Action.CATCH_UP:
      return recordLoss(slot, id, { kind: "gap", code: "missed", isToRenew: false }, nowMs);
    case Action.RECREATE:
      return isCurrent(found) ? endChannel(slot, found, { nowMs, newId, reason: "removed" }) : noChanges;
    case Action.END: {
      if (!isCurrent(found)) return noChanges;
      const ended = transition(found, "ended", { nowMs, inPlace: false, shown: { stateReason: "ended" } });
      return { put: [ended], removed: [], notices: [{ kind: "failed", channel: ended, code: wordIn(code) }] };
    }
    case Action.REAUTHORIZE:
    case Action.RENEW: {
      const reauthorize = found.reauthorize || action === Action.REAUTHORIZE;
      if (isIdle(found)) return { ...noChanges, put: [{ ...found, reauthorize, dueMs: nowMs }] };
      return isCurrent(found) ? { ...noChanges, put: [{ ...found, reauthorize }] } : noChanges;
    }
    default:
      return noChanges;
  }
}

/** The word comes from outside: only a plain one is shown. */
const wordIn = (code: string): string => (/^[A-Za-z][A-Za-z0-9_.-]{0,63}$/.test(code) ? code : "ended");
