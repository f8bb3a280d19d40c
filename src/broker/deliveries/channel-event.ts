import { timestampDate } from "@bufbuild/protobuf/wkt";
import { type Channel, Channel_StateSchema } from "../../gen/latchkey/v1/channel_pb.ts";
import type { ApplicationEvent } from "./envelope.ts";

/** An event of a channel that an application depends on. */
export interface ChannelEvent {
  readonly operation: "expiring" | "renewal_failed" | "expired" | "failed" | "gap" | "silent";
  readonly channel: Channel;
  readonly provider: string;
  /** The reason, as a code. */
  readonly code: string;
}

const sentences: Readonly<Record<ChannelEvent["operation"], string>> = {
  expiring: "the channel runs out soon, and nothing could be asked of the provider to renew it",
  renewal_failed: "the channel runs out soon, and the provider did not renew it",
  expired: "the channel has run out before there was another in its place: changes may have gone unnoticed",
  failed: "the provider refuses the channel: it is not asked for again before the connection is authorised again",
  gap: "the provider has sent notifications that did not come: changes may have gone unnoticed",
  silent: "nothing came over the channel for longer than it ever pauses: changes may have gone unnoticed",
};

export function toChannelEvent({ operation, channel, provider, code }: ChannelEvent): ApplicationEvent {
  const { connection, id, resourceKind, resource, resourceId, resourceUri, state, expiresAt } = channel;
  return {
    type: "channel",
    connection,
    provider,
    fields: {
      operation,
      success: false,
      error: { type: code, description: sentences[operation] },
      channel: {
        id,
        resourceKind,
        resource,
        resourceId,
        resourceUri,
        state: Channel_StateSchema.value[state]?.name.replace(/^STATE_/, "").toLowerCase(),
        ...(expiresAt !== undefined && { expiresAt: timestampDate(expiresAt).toISOString() }),
      },
    },
  };
}
