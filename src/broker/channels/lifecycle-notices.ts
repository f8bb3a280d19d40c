import type { World } from "../../base/world.ts";
import { LifecycleRule_Action as Action, type LifecycleRule } from "../../gen/latchkey/v1/provider_pb.ts";
import type { Logs } from "../audit/logs.ts";
import type { LossReports } from "./loss-reports.ts";
import { newChannelId } from "./rules/channel-id.ts";
import { recordNotice } from "./rules/lifecycle.ts";
import { findChannel } from "./rules/slot.ts";
import type { FindSubject, ReadValues, SignalReceiver, SignalSubject } from "./signal.ts";
import type { ChannelSlots } from "./slots.ts";

/** Notices of providers about channels themselves. They are handled here, and never forwarded. */
export interface LifecycleNotices {
  /** Returns false if the notification is no notice about a channel of ours. */
  take(receiver: SignalReceiver, at: ReadValues): Promise<boolean>;
}

interface LifecycleNoticesOptions {
  readonly slots: Pick<ChannelSlots, "move" | "read">;
  readonly find: FindSubject;
  readonly reports: Pick<LossReports, "startCatchUp">;
  readonly logs: Logs;
  readonly world: World;
}

const sentence = "the provider sent a notice about a channel";

export function createLifecycleNotices(options: LifecycleNoticesOptions): LifecycleNotices {
  const { slots, find, reports, logs, world } = options;
  const { metrics, log } = world;

  async function handle({ integration }: SignalReceiver, subject: SignalSubject, rule: LifecycleRule): Promise<void> {
    const { id, watched } = subject;
    const { action, is: code } = rule;
    const { environment, integration: key, id: connectionId } = watched.ref;
    const about = { environment, integration: key, connectionId, secrets: [] };
    const writer = logs.begin({ operation: "channel.notice", ...about });
    writer.info(sentence, { code, key: id });
    const entry = writer.end({ failed: false }).changes();
    const now = { nowMs: world.now(), newId: newChannelId };
    const alongside = () => entry;
    await slots.move(watched, (slot) => recordNotice(slot, { id, action, code }, now), { alongside });
    metrics.channelNotices.inc({ kind: wordOf[action] ?? "" });
    log.info(sentence, { environment, integration: key, connection: connectionId, channel: id, code });
    const found = action === Action.CATCH_UP ? findChannel(await slots.read(watched), id) : undefined;
    if (found === undefined) return;
    const rules = { catchUpSyncs: integration.channels?.catchUpSyncs ?? [] };
    // The provider does not wait for it. After a failure, the scan of channels tries again.
    reports.startCatchUp({ stored: found, rules }).catch((err: unknown) => {
      log.warn("could not start the catch-up syncs of a channel; will retry", { environment, integration: key, err });
    });
  }

  return {
    async take(receiver, at) {
      const { lifecycle = [], channel = "" } = receiver.provider.notification ?? {};
      const due = lifecycle.filter(({ value, is }) => at(value).includes(is));
      const [named] = due.length === 0 ? [] : at(channel);
      const subject = named === undefined ? undefined : await find(receiver.integration, named);
      if (subject === undefined) return false;
      for (const rule of due) await handle(receiver, subject, rule);
      return true;
    },
  };
}

const wordOf: Readonly<Record<Action, string>> = {
  [Action.UNSPECIFIED]: "none",
  [Action.REAUTHORIZE]: "reauthorize",
  [Action.RECREATE]: "recreate",
  [Action.CATCH_UP]: "catch_up",
  [Action.END]: "end",
  [Action.RENEW]: "renew",
};
