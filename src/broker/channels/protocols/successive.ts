import { hash, randomBytes } from "node:crypto";
import type { StoredChannel } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { newChannelId } from "../rules/channel-id.ts";
import { beginWatch, maySendWatch, recordMade, recordNotMade, replaceRefusedId } from "../rules/making.ts";
import { creationOf, mayLiveUntilMs } from "../rules/rules.ts";
import { currentOf, idOf } from "../rules/slot.ts";
import { recordConnectionGone } from "../rules/stopping.ts";
import { storeOutcome } from "../store-outcome.ts";
import type { WatchVerdict } from "./channel-answers.ts";
import { createLostChannels } from "./lost-channels.ts";
import type { ChannelProtocol, ChannelWatch, ChannelWatchOptions, ProtocolServices, WatchOutcome } from "./protocol.ts";
import type { ProtocolRequests, WatchNotSent } from "./protocol-requests.ts";

/** Limits the IDs tried when the provider says that an ID is taken, if Latchkey chooses them. */
const maxIds = 3;

interface WatchIntent {
  readonly target: string;
  readonly id: string;
  readonly token: string;
}

/**
 * Channels that cannot be extended: a successor with another id is created, and then the old channel is stopped.
 */
export function createSuccessiveChannels(services: ProtocolServices, requests: ProtocolRequests): ChannelProtocol {
  const { slots, stopReplaced, world } = services;
  const { metrics, log } = world;
  const lost = createLostChannels({ slots, requests, world });
  const now = () => ({ nowMs: world.now(), random: Math.random() });
  const count = (outcome: string) => metrics.channelWatches.inc({ outcome });

  /** Stores that a watch request is about to be sent. Undefined: the slot has changed, and no request may be sent. */
  async function storeIntent(
    { watched, rule, found }: ChannelWatch,
    { target, id, token }: WatchIntent,
    { alongside, fence }: ChannelWatchOptions,
  ): Promise<StoredChannel | undefined> {
    const tokenHash = hash("sha256", token);
    const { isKeyOurs, ...rest } = creationOf(rule, found.provider.notification?.signature);
    const creation = { ...rest, key: isKeyOurs ? token : "" };
    const intent = await slots.move(
      watched,
      (slot, owner) => {
        const nowMs = world.now();
        if (owner === undefined) return recordConnectionGone(slot, nowMs);
        const lifeMs = slot.find((one) => idOf(one) === target)?.askedLifeMs ?? 0;
        const untilMs = mayLiveUntilMs(rule, lifeMs, nowMs);
        return beginWatch(slot, { target, id, tokenHash, creation, untilMs, nowMs });
      },
      { fence, ...(alongside !== undefined && { alongside }) },
    );
    return intent?.put.find((one) => idOf(one) === id && one.tokenHash === tokenHash);
  }

  async function storeMade(
    { watched }: ChannelWatch,
    sent: StoredChannel,
    verdict: Extract<WatchVerdict, { kind: "made" }>,
  ): Promise<WatchOutcome> {
    let madeAt = now();
    const changes = await storeOutcome(log, () =>
      slots.move(watched, (slot) => {
        madeAt = now();
        return recordMade(slot, sent, verdict, madeAt);
      }),
    );
    count("made");
    await stopReplaced(watched, changes, madeAt.nowMs);
    return { kind: "made", id: idOf(sent) };
  }

  async function storeNotMade(
    { watched, options }: ChannelWatch,
    id: string,
    verdict: FailedWatch,
  ): Promise<WatchOutcome> {
    const failed = { ...verdict, kind: verdict.kind === "id_taken" ? ("put_off" as const) : verdict.kind };
    await storeOutcome(log, () =>
      slots.move(watched, (slot) => recordNotMade(slot, id, { ...failed, newId: newChannelId() }, now())),
    );
    count(verdict.kind);
    const { environment, integration, id: connection } = watched.ref;
    log.warn("channel request failed", { environment, integration, connection, code: verdict.code });
    return options.isIdGiven === true ? verdict : failed;
  }

  return {
    async watch(request) {
      const { watched, options } = request;
      const { fence, isIdGiven = false } = options;
      const settled = await lost.settle(request);
      if (settled !== undefined) {
        if (settled.kind !== "made") await storeNotMade(request, request.target, settled);
        return settled;
      }
      const isRenewal = currentOf(await slots.read(watched)) !== undefined;
      let { target } = request;
      let id = isRenewal ? newChannelId() : target;
      for (let tries = 1; ; tries += 1) {
        const token = randomBytes(32).toString("base64url");
        const sent = await storeIntent(request, { target, id, token }, tries === 1 ? options : { fence });
        // Another process gives the channel up, and may have stopped it before it exists.
        if (sent === undefined || !maySendWatch(sent, world.now())) return { kind: "overtaken" };
        const verdict = await requests.watch(request, sent, token);
        if (verdict.kind === "made") return storeMade(request, sent, verdict);
        if (verdict.kind !== "id_taken" || isIdGiven || tries === maxIds) return storeNotMade(request, id, verdict);
        const newId = newChannelId();
        await storeOutcome(log, () => slots.move(watched, (slot) => replaceRefusedId(slot, id, newId, now())));
        // A wanted channel continues under the new id; a renewal still replaces the same channel.
        if (!isRenewal) target = newId;
        id = newId;
      }
    },
    stop: lost.stop,
  };
}

type FailedWatch = Exclude<WatchVerdict, { kind: "made" }> | WatchNotSent;
