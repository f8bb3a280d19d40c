import type { World } from "../../base/world.ts";
import type { ChannelConfirmation } from "../../gen/latchkey/v1/provider_pb.ts";
import { newChannelId } from "./rules/channel-id.ts";
import { awaitsConfirmation, recordConfirmed, recordDenied } from "./rules/confirming.ts";
import { isEndless } from "./rules/rules.ts";
import { channelOf, findChannel, isWanted } from "./rules/slot.ts";
import type { FindSubject, ReadValues, SignalReceiver, SignalSubject } from "./signal.ts";
import type { ChannelSlots } from "./slots.ts";

/** Challenges by which providers confirm that they create, renew or stop a channel. */
export interface Confirmations {
  /** Returns false if the challenge confirms nothing that Latchkey asked for. */
  take(receiver: SignalReceiver, at: ReadValues): Promise<boolean>;
}

interface ConfirmationsOptions {
  readonly slots: Pick<ChannelSlots, "move" | "read">;
  readonly find: FindSubject;
  readonly world: World;
}

export function createConfirmations({ slots, find, world }: ConfirmationsOptions): Confirmations {
  const now = () => ({ nowMs: world.now(), random: Math.random() });

  async function confirm({ provider }: SignalReceiver, subject: SignalSubject, life: string): Promise<boolean> {
    const { id, watched } = subject;
    const resource = provider.channel?.resources[watched.kind];
    const lifeS = /^\d{1,10}$/.test(life) ? Number(life) : 0;
    let isAwaited = false;
    await slots.move(watched, (slot) => {
      const found = findChannel(slot, id);
      isAwaited = found !== undefined && awaitsConfirmation(found);
      return recordConfirmed(slot, id, { lifeS, isEndless: resource !== undefined && isEndless(resource) }, now());
    });
    return isAwaited;
  }

  /** A stop is confirmed unless the channel is wanted: anyone could send such a challenge. */
  async function isUnwanted(subject: SignalSubject | undefined): Promise<boolean> {
    const found = subject === undefined ? undefined : findChannel(await slots.read(subject.watched), subject.id);
    return found === undefined || !isWanted(found);
  }

  async function isAsked(receiver: SignalReceiver, at: ReadValues, named: string): Promise<boolean> {
    const { confirmation } = receiver.provider.channel ?? {};
    const subject = await find(receiver.integration, named);
    const kind = kindOf(confirmation, at);
    if (kind === "stopped") return isUnwanted(subject);
    if (kind === undefined || subject === undefined || !isOfResource(confirmation, at, subject)) return false;
    if (kind === "created") return confirm(receiver, subject, at(confirmation?.lifetime ?? "")[0] ?? "");
    await slots.move(subject.watched, (slot) => recordDenied(slot, subject.id, newChannelId(), now()));
    return true;
  }

  return {
    async take(receiver, at) {
      const [named] = at(receiver.provider.notification?.channel ?? "");
      // A subscription of a script: only its author knows it.
      if (named === undefined) return true;
      const isRight = await isAsked(receiver, at, named);
      world.metrics.channelConfirmations.inc({ outcome: isRight ? "accepted" : "refused" });
      return isRight;
    },
  };
}

/** Returns what a challenge is about; undefined: nothing that is known. */
function kindOf(rules: ChannelConfirmation | undefined, at: ReadValues): "created" | "stopped" | "denied" | undefined {
  if (rules === undefined || rules.mode === "") return "created";
  const [mode = ""] = at(rules.mode);
  if (mode === (rules.created || "subscribe")) return "created";
  if (mode === (rules.stopped || "unsubscribe")) return "stopped";
  return mode === (rules.denied || "denied") ? "denied" : undefined;
}

const isOfResource = (
  rules: ChannelConfirmation | undefined,
  at: ReadValues,
  { stored }: Pick<SignalSubject, "stored">,
): boolean => rules === undefined || rules.resource === "" || at(rules.resource)[0] === channelOf(stored).resource;
