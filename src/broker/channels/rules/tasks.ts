import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { type ChannelChanges, noChanges } from "./move.ts";
import {
  idOf,
  isBeingCreated,
  isIdle,
  isManaged,
  isOver,
  isRenewing,
  isStopping,
  isUnsent,
  type Slot,
  stopIdOf,
} from "./slot.ts";
import { claimMs } from "./times.ts";

/** The requests due to the provider now. */
export type Task = { readonly ask: "watch"; readonly id: string } | StopTask;

interface StopTask {
  readonly ask: "stop";
  readonly id: string;
  readonly resourceId: string;
}

export function tasksOf(slot: Slot, nowMs: number): readonly Task[] {
  return slot
    .filter((one) => !isOver(one) && one.dueMs <= nowMs)
    .flatMap((one): readonly Task[] => {
      if (isStopping(one)) return stopOf(slot, one);
      return isIdle(one) || isUnsent(one) ? [{ ask: "watch", id: idOf(one) }] : [];
    });
}

/** The channels that the author of this change has claimed to stop. */
export const claimedIn = ({ put }: ChannelChanges, slot: Slot, nowMs: number): readonly StopTask[] =>
  put.filter((one) => isStopping(one) && one.dueMs === nowMs + claimMs).flatMap((one) => stopOf(slot, one));

function stopOf(slot: Slot, one: StoredChannel): readonly StopTask[] {
  const resourceId = stopIdOf(slot, one);
  return resourceId === "" ? [] : [{ ask: "stop", id: idOf(one), resourceId }];
}

/** The credentials were replaced: makes everything due now that they can create, renew or stop. */
export function renewSoon(slot: Slot, nowMs: number): ChannelChanges {
  const isOurs = (one: StoredChannel) => isManaged(one) || isStopping(one);
  const due = slot.filter((one) => !isOver(one) && isOurs(one) && !isBeingCreated(one) && !isRenewing(one));
  return { ...noChanges, put: due.map((one) => ({ ...one, dueMs: Math.min(one.dueMs, nowMs) })) };
}
