import { sequentialId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import { Forward_State } from "../../gen/latchkey/v1/webhook_pb.ts";
import type { Change } from "../../store/contract.ts";
import { type AuthEvent, authEventBody } from "./auth-event.ts";
import { type ChannelEvent, channelEventBody } from "./channel-event.ts";
import type { Forwards } from "./forwards.ts";
import { type SyncEvent, syncEventBody } from "./sync-event.ts";

/** What latchkey itself has to tell the application: for the commit of what it tells of. */
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
      ...{ environment, integration, type, notificationId: "", lane: type, number: "" },
      message: sequentialId(world.now()),
      body,
    };
    // Of an application that wants to hear nothing, nothing is kept: what became of a connection stands in it.
    const wanted = forwards.newFor(cause, id).filter(({ state }) => state === Forward_State.PENDING);
    return forwards.changes(wanted);
  }

  return {
    auth: (event) => changes(event.connection.ref, "auth", authEventBody(event)),
    channel: (event) => changes(event.channel.connection, "channel", channelEventBody(event)),
    sync: (event) => changes(event.run.connection, "sync", syncEventBody(event)),
  };
}
