import { sequentialId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import { Forward_State } from "../../gen/latchkey/v1/webhook_pb.ts";
import type { Change } from "../../store/contract.ts";
import { type AuthEvent, authEventBody } from "./auth-event.ts";
import { type ChannelEvent, channelEventBody } from "./channel-event.ts";
import type { Forwards } from "./forwards.ts";
import { type SyncEvent, syncEventBody } from "./sync-event.ts";

/** Events that Latchkey itself sends to the application, each for the commit of the change that it reports. */
export interface Events {
  auth(event: AuthEvent): Change[];
  channel(event: ChannelEvent): Change[];
  sync(event: SyncEvent): Change[];
}

export function createEvents({ forwards, world }: { readonly forwards: Forwards; readonly world: World }): Events {
  function changes(ref: ConnectionRef | undefined, type: "auth" | "channel" | "sync", body: Uint8Array): Change[] {
    if (ref === undefined) throw new Error("a connection has a ref");
    const { environment, integration, id } = ref;
    const cause = {
      ...{ environment, integration, type, notificationId: "", orderKey: type, number: "" },
      message: sequentialId(world.now()),
      body,
    };
    // Store no event for an application without a forward URL: the connection itself holds its state.
    const wanted = forwards.newFor(cause, id).filter(({ state }) => state === Forward_State.PENDING);
    return forwards.changes(wanted);
  }

  return {
    auth: (event) => changes(event.connection.ref, "auth", authEventBody(event)),
    channel: (event) => changes(event.channel.connection, "channel", channelEventBody(event)),
    sync: (event) => changes(event.run.connection, "sync", syncEventBody(event)),
  };
}
