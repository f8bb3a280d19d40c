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
  expiring: "the channel expires soon, and no renewal request can be sent to the provider",
  renewal_failed: "the channel expires soon, and the provider did not renew it",
  expired: "the channel expired before a new one was created: changes may have been missed",
  failed: "the provider rejected the channel: it is not requested again until the connection is reauthorized",
  gap: "the provider sent notifications that did not arrive: changes may have been missed",
  silent: "the channel has been silent for much longer than its longest pause: changes may have been missed",
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
