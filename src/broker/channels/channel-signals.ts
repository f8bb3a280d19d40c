import type { World } from "../../base/world.ts";
import type { NotificationReading } from "../../core/notifications/reading.ts";
import { valuesOf } from "../../core/notifications/value-rule.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { Store } from "../../store/contract.ts";
import type { Logs } from "../audit/logs.ts";
import type { ChannelCollections } from "./channel-collections.ts";
import { createConfirmations } from "./confirmations.ts";
import { createLifecycleNotices } from "./lifecycle-notices.ts";
import type { LossReports } from "./loss-reports.ts";
import { resourceOf } from "./rules/slot.ts";
import type { FindSubject, ReadValues, SignalReceiver } from "./signal.ts";
import type { ChannelSlots } from "./slots.ts";
import type { ChannelTokens } from "./tokens.ts";

/** What a provider sends to the webhook URL about a channel itself. */
export interface ChannelSignals {
  /** Handles notices, such as that a channel ends soon. Returns false if the notification is none of a channel of ours. */
  notice(receiver: SignalReceiver, reading: NotificationReading): Promise<boolean>;
  /**
   * Called for a challenge. Notes what it confirms; waits for no request, since the one that creates the channel may be
   * open. Returns false if the challenge confirms nothing that Latchkey asked for, and must be refused.
   */
  challenged(receiver: SignalReceiver, reading: NotificationReading): Promise<boolean>;
}

interface ChannelSignalsOptions {
  readonly store: Pick<Store, "caughtUp">;
  readonly collections: Pick<ChannelCollections, "channels">;
  readonly slots: Pick<ChannelSlots, "move" | "read">;
  readonly tokens: Pick<ChannelTokens, "idOf">;
  readonly reports: Pick<LossReports, "startCatchUp">;
  readonly logs: Logs;
  readonly world: World;
}

export function createChannelSignals(options: ChannelSignalsOptions): ChannelSignals {
  const { store, collections, slots, tokens, reports, logs, world } = options;

  const find: FindSubject = async (integration, named) => {
    const { environment, key } = integration;
    const id = tokens.idOf({ environment, integration: key, id: named }) ?? named;
    const stored = (await collections.channels.get(environment, id))?.value;
    if (stored === undefined || resourceOf(stored).ref.integration !== key) return undefined;
    return { id, watched: resourceOf(stored), stored };
  };
  const notices = createLifecycleNotices({ slots, find, reports, logs, world });
  const confirmations = createConfirmations({ slots, find, world });

  return {
    async notice(receiver, reading) {
      return notices.take(receiver, valuesIn(receiver.provider, reading));
    },
    async challenged(receiver, reading) {
      const { resources = {} } = receiver.provider.channel ?? {};
      if (!Object.values(resources).some(({ confirmedByChallenge }) => confirmedByChallenge)) return true;
      await store.caughtUp();
      return confirmations.take(receiver, valuesIn(receiver.provider, reading));
    },
  };
}

function valuesIn({ notification }: Provider, reading: NotificationReading): ReadValues {
  const values = notification?.values ?? {};
  return (name) => {
    const rule = Object.hasOwn(values, name) ? values[name] : undefined;
    return rule === undefined ? [] : valuesOf(rule, reading);
  };
}
