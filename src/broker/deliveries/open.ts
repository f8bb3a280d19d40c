import type { World } from "../../base/world.ts";
import type { SealedStore } from "../../store/sealed/sealed.ts";
import type { Audit } from "../audit/audit.ts";
import type { Logs } from "../audit/logs.ts";
import type { Partitions } from "../partitions/partitions.ts";
import type { SetupRoom } from "../setup/open.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import type { LastUsedTimes } from "../stored/last-used.ts";
import { type Destinations, openDestinations } from "./destinations.ts";
import { createEvents, type Events } from "./events.ts";
import { createForwardBodies, type ForwardBodies } from "./forward-bodies.ts";
import { createForwards, type Forwards } from "./forwards.ts";
import type { WebhookCollections } from "./webhook-collections.ts";

export type { DeliveryLimits } from "./deliver.ts";

/** Forwards and events for the application, and where they are sent. */
export interface DeliveryRoom {
  readonly destinations: Destinations;
  readonly bodies: ForwardBodies;
  readonly forwards: Forwards;
  readonly events: Events;
}

/** The services that all rooms above this one share. */
export interface SharedServices extends Omit<SetupRoom, "close">, DeliveryRoom {
  readonly store: SealedStore;
  readonly world: World;
  readonly lastUsed: LastUsedTimes;
  readonly partitions: Partitions;
  readonly audit: Audit;
  readonly logs: Logs;
}

interface DeliveryRoomOptions {
  readonly store: SealedStore;
  readonly collections: SetupCollections & WebhookCollections;
  readonly audit: Audit;
  readonly world: World;
}

export async function openDeliveries({ store, collections, audit, world }: DeliveryRoomOptions): Promise<DeliveryRoom> {
  const destinations = await openDestinations({ store, collections, audit, world });
  const bodies = createForwardBodies(collections);
  const forwards = createForwards({ store, collections, destinations, bodies, audit, world });
  const events = createEvents({ forwards, world });
  return { destinations, bodies, forwards, events };
}
