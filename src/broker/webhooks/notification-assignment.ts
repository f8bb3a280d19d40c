import { create } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import type { StoredForward, StoredNotification } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { ConnectionRefSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import { Forward_State, type Notification } from "../../gen/latchkey/v1/webhook_pb.ts";
import type { Store } from "../../store/contract.ts";
import { transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import { targetOf } from "../connections/connection-collections.ts";
import type { Connections } from "../connections/connections.ts";
import type { Destinations } from "../deliveries/destinations.ts";
import type { NewForwards } from "../deliveries/new-forwards.ts";
import type { WebhookCollections } from "../deliveries/webhook-collections.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { namesNothing } from "../stored/name-tables.ts";
import type { NotifiedSyncs } from "../syncs/notified-syncs.ts";
import type { OutboxAdmission } from "./outbox-admission.ts";

/**
 * Assigns a notification that matched no connection to one by hand: creates the forwards and runs that a match would
 * have created.
 */
export type AssignNotification = (
  assignment: {
    readonly environment: string;
    readonly id: string;
    readonly connectionId: string;
  },
  actor: string,
) => Promise<void>;

interface NotificationAssignmentOptions {
  readonly store: Store;
  readonly collections: SetupCollections & WebhookCollections;
  readonly connections: Pick<Connections, "get">;
  readonly destinations: Pick<Destinations, "isCurrent">;
  readonly forwards: NewForwards;
  readonly admission: OutboxAdmission;
  readonly notified: NotifiedSyncs;
  readonly audit: Audit;
}

export function createNotificationAssignment(options: NotificationAssignmentOptions): AssignNotification {
  const { store, collections, connections, destinations, forwards, admission, notified, audit } = options;

  async function find(environment: string, id: string) {
    const found = namesNothing(environment, id) ? undefined : await collections.notifications.get(environment, id);
    const { notification, environmentId = "" } = found?.value ?? {};
    if (found === undefined || notification === undefined || !destinations.isCurrent({ environment, environmentId }))
      throw new Fault("not_found", `notification "${id}" does not exist`);
    if (notification.matches.length > 0)
      throw new Fault("conflict", "the webhook already concerns a connection: only an unmatched one can be assigned");
    return { found, notification };
  }

  async function forwardsFor(notification: Notification, connectionId: string): Promise<readonly StoredForward[]> {
    const { environment, integration, id, messageId } = notification;
    const at = await collections.integrations.get(environment, integration);
    if (at?.value.noForward === true) return [];
    const cause = {
      environment,
      integration,
      notificationId: id,
      // Its neighbors in the channel were delivered long ago.
      orderKey: "",
      number: "",
      type: "forward",
      message: messageId === "" ? id : messageId,
      body: new Uint8Array(),
    };
    return forwards.create(cause, connectionId);
  }

  return async ({ environment, id, connectionId }, actor) => {
    const { notification: unassigned } = await find(environment, id);
    const ref = create(ConnectionRefSchema, { environment, integration: unassigned.integration, id: connectionId });
    await connections.get(ref);
    const created = await forwardsFor(unassigned, connectionId);
    const waiting = created.filter(({ state }) => state === Forward_State.PENDING);
    admission.reserve(waiting);
    try {
      await transact(store, async () => {
        const { found, notification } = await find(environment, id);
        const assigned: Notification = { ...notification, matches: [ref], assignedBy: actor, revision: 0n };
        const after: StoredNotification = { ...found.value, notification: assigned };
        const before = await collections.forwards.getMany(created.map((one) => [environment, one.id]));
        return {
          changes: [
            ...collections.notifications.change({ before: found, after }),
            ...created.flatMap((one, i) => collections.forwards.change({ before: before[i], after: one })),
            ...notified(assigned, assigned.kinds),
            ...audit.changes({
              actor,
              action: "notification.assign",
              environment,
              targets: [`${targetOf(ref)}/${id}`],
            }),
          ],
          result: undefined,
        };
      });
    } finally {
      admission.release(waiting);
    }
  };
}
