import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { type ChannelChanges, noChanges } from "./move.ts";
import {
  channelOf,
  idOf,
  isBeingCreated,
  isIdle,
  isManaged,
  isOver,
  isRenewing,
  isStoppable,
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
  readonly providerId: string;
}

export function tasksOf(slot: Slot, nowMs: number): readonly Task[] {
  // A creation first: it may adopt the channel that would be stopped.
  return slot
    .filter((one) => !isOver(one) && one.dueMs > 0 && one.dueMs <= nowMs)
    .toSorted((a, b) => Number(isStopping(a)) - Number(isStopping(b)))
    .flatMap((one): readonly Task[] => {
      if (isStopping(one)) return stopOf(slot, one);
      return isIdle(one) || isUnsent(one) ? [{ ask: "watch", id: idOf(one) }] : [];
    });
}

/** The channels that the author of this change has claimed to stop. */
export const claimedIn = ({ put }: ChannelChanges, slot: Slot, nowMs: number): readonly StopTask[] =>
  put.filter((one) => isStopping(one) && one.dueMs === nowMs + claimMs).flatMap((one) => stopOf(slot, one));

function stopOf(slot: Slot, one: StoredChannel): readonly StopTask[] {
  if (!isStoppable(slot, one)) return [];
  const { providerId } = channelOf(one);
  return [{ ask: "stop", id: idOf(one), resourceId: stopIdOf(slot, one), providerId }];
}

/** The credentials were replaced: makes everything due now that they can create, renew or stop. */
export function renewSoon(slot: Slot, nowMs: number): ChannelChanges {
  const isOurs = (one: StoredChannel) => isManaged(one) || isStopping(one);
  const due = slot.filter((one) => !isOver(one) && isOurs(one) && !isBeingCreated(one) && !isRenewing(one));
  return { ...noChanges, put: due.map((one) => ({ ...one, dueMs: Math.min(one.dueMs, nowMs) })) };
}
