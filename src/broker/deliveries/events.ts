import { sequentialId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { Forward_State } from "../../gen/latchkey/v1/webhook_pb.ts";
import type { Change } from "../../store/contract.ts";
import { type ApprovalEvent, toApprovalEvent } from "./approval-event.ts";
import { type AuthEvent, toAuthEvent } from "./auth-event.ts";
import { type ChannelEvent, toChannelEvent } from "./channel-event.ts";
import { type ApplicationEvent, eventBody } from "./envelope.ts";
import type { NewForwards } from "./new-forwards.ts";
import { type SyncEvent, toSyncEvent } from "./sync-event.ts";

/** Events that Latchkey itself sends to the application, each for the commit of the change that it reports. */
export interface Events {
  approval(event: ApprovalEvent): Change[];
  auth(event: AuthEvent): Change[];
  channel(event: ChannelEvent): Change[];
  sync(event: SyncEvent): Change[];
}

export function createEvents({ forwards, world }: { readonly forwards: NewForwards; readonly world: World }): Events {
  function changes(event: ApplicationEvent): Change[] {
    const { type, connection } = event;
    if (connection === undefined) throw new Error("a connection has a ref");
    const { environment, integration, id } = connection;
    const cause = {
      environment,
      integration,
      type,
      notificationId: "",
      orderKey: type,
      number: "",
      message: sequentialId(world.now()),
      body: eventBody(event),
    };
    // Store no event for an application without a forward URL: the connection itself holds its state.
    const wanted = forwards.create(cause, id).filter(({ state }) => state === Forward_State.PENDING);
    return forwards.changes(wanted);
  }

  return {
    approval: (event) => changes(toApprovalEvent(event)),
    auth: (event) => changes(toAuthEvent(event)),
    channel: (event) => changes(toChannelEvent(event)),
    sync: (event) => changes(toSyncEvent(event)),
  };
}
