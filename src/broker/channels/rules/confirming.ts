import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { recordMade, recordNotMade, type WatchAnswer } from "./making.ts";
import { type ChannelChanges, noChanges } from "./move.ts";
import { extended } from "./renewing.ts";
import { channelOf, findChannel, isBeingCreated, isRenewing, isUnconfirmed, type Slot } from "./slot.ts";
import type { TransitionTime } from "./times.ts";

/** Challenges that confirm what a provider was asked: they may come before the response to the request, or much later. */

/** Whether the channel waits for a challenge that confirms it. */
export const awaitsConfirmation = (one: StoredChannel): boolean =>
  isBeingCreated(one) || (isRenewing(one) && one.inPlace);

/** Notes that the provider has confirmed the channel. `lifeS`: the granted lifetime; 0: not named. */
export function recordConfirmed(
  slot: Slot,
  id: string,
  { lifeS, isEndless }: ConfirmedLife,
  now: TransitionTime,
): ChannelChanges {
  const found = findChannel(slot, id);
  if (found === undefined || !awaitsConfirmation(found)) return noChanges;
  const confirmed = { ...found, confirmed: true, confirmedLifeS: BigInt(lifeS) };
  // The response to the request has not come yet.
  if (!isUnconfirmed(found)) return { ...noChanges, put: [confirmed] };
  const answer = { ...answerIn(found), isEndless };
  if (isRenewing(found)) return { ...noChanges, put: [extended(confirmed, answer, now)] };
  return recordMade(
    slot.map((one) => (one === found ? confirmed : one)),
    confirmed,
    answer,
    now,
  );
}

export interface ConfirmedLife {
  readonly lifeS: number;
  readonly isEndless: boolean;
}

/** The provider refuses by a challenge what it was asked. */
export const recordDenied = (slot: Slot, id: string, newId: string, now: TransitionTime): ChannelChanges =>
  recordNotMade(slot, id, { kind: "refused", code: "denied", newId }, now);

function answerIn(stored: StoredChannel): WatchAnswer {
  const { resourceId, resourceUri, providerId, position, expiresAt } = channelOf(stored);
  const expiresAtMs = expiresAt === undefined ? undefined : timestampMs(expiresAt);
  return { resourceId, resourceUri, providerId, position, expiresAtMs };
}
