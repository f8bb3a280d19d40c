import { sequentialId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { type StoredForward, StoredForward_Address } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { Forward_State } from "../../gen/latchkey/v1/webhook_pb.ts";
import type { Change } from "../../store/contract.ts";
import { timestampNow } from "../stored/timestamp-now.ts";
import type { Destinations } from "./destinations.ts";
import { forwardId } from "./forward-id.ts";
import type { WebhookCollections } from "./webhook-collections.ts";

/** Creates forwards, for the commit of what they report. */
export interface NewForwards {
  /** Creates one forward for each address of the connection. */
  create(cause: ForwardCause, connectionId: string): readonly StoredForward[];
  changes(created: readonly StoredForward[]): Change[];
}

export interface ForwardCause {
  readonly environment: string;
  readonly integration: string;
  /** `forward`, `auth`, `sync` or `channel`. */
  readonly type: string;
  /** Identifies the message: a repeat of the same message has the same value. */
  readonly message: string;
  /** Empty for Latchkey's own events. */
  readonly notificationId: string;
  /** Body of Latchkey's own events. */
  readonly body: Uint8Array;
  /** First attempts of forwards with the same key are made in order; empty: in any order. */
  readonly orderKey: string;
  readonly number: string;
}

interface NewForwardsOptions {
  readonly collections: Pick<WebhookCollections, "forwards">;
  readonly destinations: Destinations;
  readonly world: World;
}

export const createNewForwards = ({ collections, destinations, world }: NewForwardsOptions): NewForwards => ({
  create(cause, connectionId) {
    const { environment, integration, type, message, notificationId, body, orderKey, number } = cause;
    const nowMs = world.now();
    const now = timestampNow(nowMs);
    const addresses = destinations.addressesFor(environment, { integration, connectionId });
    const environmentId = destinations.environmentByName(environment)?.id ?? "";
    return addresses.map(({ address, overrideUrl }) => {
      const isSecondary = address === StoredForward_Address.SECONDARY;
      const hasUrl = destinations.urlOf({ environment, address, overrideUrl }) !== "";
      const created: StoredForward = {
        $typeName: "latchkey.stored.v1.StoredForward",
        environment,
        environmentId,
        integration,
        connectionId,
        type,
        notificationId,
        body,
        address,
        overrideUrl,
        id: forwardId({ environment, integration, message, connectionId, isSecondary }),
        sequence: notificationId === "" ? sequentialId(nowMs) : notificationId,
        // Order keys are separate for each connection and each integration.
        lane: orderKey === "" ? "" : `${integration}\0${connectionId}\0${orderKey}`,
        number,
        state: hasUrl ? Forward_State.PENDING : Forward_State.NO_DESTINATION,
        stateReason: hasUrl ? "" : "no_forward_url",
        attemptCount: 0,
        attempts: [],
        scheduleStep: 0,
        createdAt: now,
        updatedAt: now,
      };
      return hasUrl ? { ...created, nextAttemptAt: now } : created;
    });
  },
  changes: (created) => created.flatMap((after) => collections.forwards.change({ before: undefined, after })),
});
