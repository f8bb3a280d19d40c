import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { endChannel } from "../rules/aging.ts";
import { newChannelId } from "../rules/channel-id.ts";
import { recordNotMade } from "../rules/making.ts";
import type { ChannelChanges } from "../rules/move.ts";
import { recordReauthorized, recordRenewed } from "../rules/renewing.ts";
import { isEndless } from "../rules/rules.ts";
import { channelOf, currentOf, findChannel, idOf, resourceOf, type Slot } from "../rules/slot.ts";
import { storeOutcome } from "../store-outcome.ts";
import type { RenewalVerdict } from "./channel-answers.ts";
import type { ChannelProtocol, ChannelWatch, ProtocolServices, WatchOutcome } from "./protocol.ts";
import type { ProtocolRequests, WatchNotSent } from "./protocol-requests.ts";
import { createRenewalClaims } from "./renewal-claims.ts";
import { createTurns } from "./turns.ts";

interface InPlaceOptions {
  readonly requests: ProtocolRequests;
  /** Creates channels: only their renewal differs. */
  readonly successive: ChannelProtocol;
}

/**
 * Channels that the provider extends. Several of a connection may be extended by one request. A channel that the
 * provider does not know any more is created again; this is told as a loss.
 */
export function createInPlaceChannels(
  { slots, world }: ProtocolServices,
  { requests, successive }: InPlaceOptions,
): ChannelProtocol {
  const { metrics, log } = world;
  const { claim, claimNeighbors } = createRenewalClaims({ slots, world });
  const turns = createTurns();

  /** Whether the channel was renewed together with another while this request waited for its turn. */
  async function isRenewed({ watched, target }: ChannelWatch, before: Slot): Promise<boolean> {
    const [was, is] = [findChannel(before, target), findChannel(await slots.read(watched), target)];
    return was !== undefined && is !== undefined && is.dueMs !== was.dueMs && is.dueMs > world.now();
  }

  async function renewInTurn(request: ChannelWatch, before: Slot): Promise<WatchOutcome> {
    if (await isRenewed(request, before)) return { kind: "made", id: request.target };
    return claimAndRenew(request);
  }

  async function claimAndRenew(request: ChannelWatch): Promise<WatchOutcome> {
    const { target, rule } = request;
    const channel = await claim(request, target);
    if (channel === undefined) return { kind: "overtaken" };
    const isToReauthorize = channel.reauthorize && rule.watch.reauthorize !== undefined;
    return isToReauthorize ? reauthorizeNow(request, channel) : renewNow(request, channel);
  }

  async function renewNow(request: ChannelWatch, channel: StoredChannel): Promise<WatchOutcome> {
    const all = [channel, ...(await claimNeighbors(request, channel))];
    const verdict = await requests.renew(request, all);
    for (const one of all) {
      await storeOutcome(log, () => slots.move(resourceOf(one), afterVerdict(request, one, verdict, world.now)));
    }
    return outcomeOf(request, channel, verdict);
  }

  async function reauthorizeNow(request: ChannelWatch, channel: StoredChannel): Promise<WatchOutcome> {
    const verdict = await requests.reauthorize(request, channel);
    const { renewAt } = channelOf(channel);
    const renewAtMs = renewAt === undefined ? 0 : timestampMs(renewAt);
    const after =
      verdict.kind === "renewed"
        ? (slot: Slot) => recordReauthorized(slot, idOf(channel), renewAtMs, world.now())
        : afterVerdict(request, channel, verdict, world.now);
    await storeOutcome(log, () => slots.move(request.watched, after));
    return outcomeOf(request, channel, verdict);
  }

  function outcomeOf(
    { watched }: ChannelWatch,
    channel: StoredChannel,
    verdict: RenewalVerdict | WatchNotSent,
  ): WatchOutcome {
    metrics.channelWatches.inc({ outcome: verdict.kind });
    if (verdict.kind === "renewed") return { kind: "made", id: idOf(channel) };
    const { environment, integration, id: connection } = watched.ref;
    log.warn("channel request failed", { environment, integration, connection, code: verdict.code });
    return verdict.kind === "gone" ? { kind: "put_off", code: verdict.code } : verdict;
  }

  return {
    async watch(request) {
      const { watched, rule } = request;
      const slot = await slots.read(watched);
      if (currentOf(slot) === undefined) return successive.watch(request);
      if (rule.watch.renewBatch < 2) return claimAndRenew(request);
      const { environment, integration, id } = watched.ref;
      return turns.take([environment, integration, id, watched.kind].join("\0"), () => renewInTurn(request, slot));
    },
    stop: successive.stop,
  };
}

/** Returns the change that stores what the response to a renewal means. */
function afterVerdict(
  { rule }: ChannelWatch,
  channel: StoredChannel,
  verdict: RenewalVerdict | WatchNotSent,
  now: () => number,
): (slot: Slot) => ChannelChanges {
  const id = idOf(channel);
  const { watch } = rule;
  return (slot) => {
    const at = { nowMs: now(), random: Math.random() };
    switch (verdict.kind) {
      case "renewed":
        return recordRenewed(
          slot,
          id,
          {
            expiresAtMs: verdict.expiresAtMs,
            isEndless: isEndless(watch),
            awaitsChallenge: watch.confirmedByChallenge,
          },
          at,
        );
      case "gone": {
        const found = findChannel(slot, id);
        const isCurrent = found !== undefined && currentOf(slot) === found;
        const end = { nowMs: at.nowMs, newId: newChannelId, reason: "gone" };
        return isCurrent ? endChannel(slot, found, end) : { put: [], removed: [], notices: [] };
      }
      default:
        return recordNotMade(slot, id, { ...verdict, newId: newChannelId() }, at);
    }
  };
}
