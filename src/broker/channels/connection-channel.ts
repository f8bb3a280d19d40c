import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Integration } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { Change } from "../../store/contract.ts";
import { newChannelId } from "./rules/channel-id.ts";
import { requestedChannel } from "./rules/request.ts";
import { defaultWatchRule, ownedResource } from "./rules/rules.ts";
import { currentOf, isOfIntegration, isWanted } from "./rules/slot.ts";
import { renewSoon } from "./rules/tasks.ts";
import type { ChannelSlots } from "./slots.ts";

interface FiledConnectionEvent {
  readonly ref: ConnectionRef;
  readonly integration: Integration;
  readonly provider: Provider;
  /** The end user has just authorized the connection, so existing channels were made with other credentials. */
  readonly isAuthorized: boolean;
  readonly isNew: boolean;
  readonly nowMs: number;
}

/** Whether the integration's channels begin by themselves. If not, storing its connections changes no channel. */
export const hasAutomaticChannels = ({ integration }: Pick<FiledConnectionEvent, "integration">): boolean =>
  integration.channels?.automatic === true;

/** Changes for storing a connection: with automatic channels, its channel is requested in the same commit. */
export async function channelChanges(slots: ChannelSlots, filed: FiledConnectionEvent): Promise<Change[]> {
  const { ref, provider, isAuthorized, isNew, nowMs } = filed;
  const rule = hasAutomaticChannels(filed) ? defaultWatchRule(provider) : undefined;
  if (rule === undefined) return [];
  const watched = ownedResource({ ref, kind: rule.kind, resource: rule.resource }, provider);
  // The scan of connections requests a channel for an integration, so that there is only one.
  if (isOfIntegration(watched)) return [];
  const slot = isNew ? [] : await slots.read(watched);
  if (!slot.some(isWanted)) {
    return slots.added(
      requestedChannel({ ...watched, id: newChannelId(), nowMs, askedLifeMs: 0, isDefault: true, kept: true }),
    );
  }
  const current = currentOf(slot);
  // An import usually brings credentials of the same account: the existing channel continues.
  const isToRenew = isAuthorized || current === undefined || current.failures > 0;
  return isToRenew ? slots.changes(slot, renewSoon(slot, nowMs)) : [];
}
