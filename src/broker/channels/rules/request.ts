import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type StoredChannel, StoredChannelSchema } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { ChannelSchema, Channel_State as State } from "../../../gen/latchkey/v1/channel_pb.ts";
import { channelOf, resourceOf, type WatchedResource } from "./slot.ts";

export interface RequestedChannel extends WatchedResource {
  readonly id: string;
  readonly nowMs: number;
  readonly askedLifeMs: number;
  readonly isDefault: boolean;
  readonly kept: boolean;
  readonly dueMs?: number;
  readonly failures?: number;
  readonly previousId?: string;
  readonly catchUp?: string;
}

/** A channel that is wanted, and not yet requested from the provider. */
export function requestedChannel(request: RequestedChannel): StoredChannel {
  const { id, ref, kind, resource, nowMs, previousId = "" } = request;
  const { askedLifeMs, isDefault, kept, dueMs = nowMs, failures = 0, catchUp = "" } = request;
  const now = timestampFromMs(nowMs);
  return create(StoredChannelSchema, {
    askedLifeMs,
    isDefault,
    kept,
    dueMs,
    failures,
    catchUp,
    channel: create(ChannelSchema, {
      id,
      connection: ref,
      resourceKind: kind,
      resource,
      previousId,
      state: State.CREATING,
      managed: true,
      createdAt: now,
      updatedAt: now,
    }),
  });
}

/** A channel that is to replace another. */
export const successor = (
  old: StoredChannel,
  more: Pick<RequestedChannel, "id" | "nowMs"> & Partial<RequestedChannel>,
): StoredChannel =>
  requestedChannel({
    ...resourceOf(old),
    askedLifeMs: old.askedLifeMs,
    isDefault: old.isDefault,
    kept: true,
    catchUp: old.catchUp,
    previousId: channelOf(old).previousId,
    ...more,
  });
