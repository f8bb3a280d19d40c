import type { World } from "../../base/world.ts";
import type { Change } from "../../store/contract.ts";
import type { Logs } from "../audit/logs.ts";
import type { Events } from "../deliveries/events.ts";
import type { Providers } from "../setup/providers.ts";
import type { ChannelNotice } from "./rules/move.ts";
import { channelOf, idOf, resourceOf } from "./rules/slot.ts";

/** Reports what happened to channels: to the application by an event, and to the operator in the log. */
export interface ChannelNotices {
  /** Returns the application's event and the log entry, for the commit of the change itself. */
  changes(notices: readonly ChannelNotice[], owner: { readonly provider: string } | undefined): Change[];
  /** Counts and logs, after the commit. */
  report(notices: readonly ChannelNotice[]): void;
}

interface ChannelNoticesOptions {
  readonly providers: Providers;
  readonly events: Events;
  readonly logs: Logs;
  readonly world: World;
}

export const createChannelNotices = ({ providers, events, logs, world }: ChannelNoticesOptions): ChannelNotices => ({
  changes: (notices, owner) =>
    notices.flatMap(({ kind, channel: stored, code }): Change[] => {
      const channel = channelOf(stored);
      const { environment = "", integration = "", id: connectionId = "" } = channel.connection ?? {};
      const writer = logs.begin({ operation: `channel.${kind}`, environment, integration, connectionId, secrets: [] });
      writer.warn(sentences[kind], { code, key: channel.id, failures: stored.failures });
      const ended = writer.end({ failed: true }).changes();
      if (kind === "outcome_unknown" || kind === "not_stopped" || owner === undefined) return ended;
      const provider = providers.find(owner.provider).name;
      return [...ended, ...events.channel({ operation: kind, channel, provider, code })];
    }),
  report(notices) {
    const { metrics, log } = world;
    for (const { kind, channel, code } of notices) {
      const { environment, integration, id: connection } = resourceOf(channel).ref;
      metrics.channelAlerts.inc({ kind });
      const write = kind === "outcome_unknown" ? log.info : kind === "not_stopped" ? log.error : log.warn;
      write.call(log, sentences[kind], { environment, integration, connection, channel: idOf(channel), code });
    }
  },
});

const sentences: Readonly<Record<ChannelNotice["kind"], string>> = {
  expiring: "channel expires soon; no renewal request can be sent",
  renewal_failed: "channel expires soon; the provider did not renew it",
  expired: "channel expired before a new one was created",
  failed: "provider rejected the channel; not requested again until the connection is reauthorized",
  gap: "channel lost notifications that the provider sent",
  silent: "channel silent for much longer than its longest pause",
  not_stopped: "could not stop a channel; will retry until it expires",
  outcome_unknown:
    "outcome of a channel request unknown; requesting another channel, and stopping the first if it exists",
};
