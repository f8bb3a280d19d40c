import { create } from "@bufbuild/protobuf";
import type { NotificationValues } from "../../core/notifications/values.ts";
import { ConnectionRefSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import type { ChannelTokens } from "../channels/tokens.ts";
import type { LookupIndex, LookupMatch } from "../connections/lookup/lookup-index.ts";
import type { WebhookReceiver } from "./webhook-receivers.ts";

/** Finds the connections that a notification concerns, by the provider's rules or by its channel. */
export type MatchNotification = (
  receiver: Pick<WebhookReceiver, "integration">,
  values: NotificationValues,
) => ReturnType<LookupIndex["match"]>;

interface NotificationMatchingOptions {
  readonly resources: LookupIndex;
  readonly tokens: Pick<ChannelTokens, "connectionOf">;
}

export function createNotificationMatching({ resources, tokens }: NotificationMatchingOptions): MatchNotification {
  /** The first message of a channel arrives before the provider has said which resource its messages will name. */
  function orByChannel(
    found: LookupMatch,
    { integration: { environment, key: integration } }: Pick<WebhookReceiver, "integration">,
    channel: string | undefined,
  ): LookupMatch {
    if (found.matches.length > 0 || channel === undefined) return found;
    const id = tokens.connectionOf({ environment, integration, id: channel });
    // A channel of the integration names no connection.
    return id === undefined || id === ""
      ? found
      : { ...found, matches: [create(ConnectionRefSchema, { environment, integration, id })] };
  }

  return (receiver, { lookups, channel }) => {
    const { environment, key: integration } = receiver.integration;
    const found = resources.match({ environment, integration }, lookups);
    return found instanceof Promise
      ? found.then((match) => orByChannel(match, receiver, channel))
      : orByChannel(found, receiver, channel);
  };
}
