import type { World } from "../../base/world.ts";
import type { Store } from "../../store/contract.ts";
import type { Audit } from "../audit/audit.ts";
import type { Destinations } from "./destinations.ts";
import type { ForwardBodies } from "./forward-bodies.ts";
import { createForwardCancellation, type ForwardCancellation } from "./forward-cancellation.ts";
import { createForwardList, type ForwardList } from "./forward-list.ts";
import { createForwardReplay, type ForwardReplay } from "./forward-replay.ts";
import { createNewForwards, type NewForwards } from "./new-forwards.ts";
import type { WebhookCollections } from "./webhook-collections.ts";

/** Copies of notifications, and Latchkey's own events, on their way to the application. */
export interface Forwards extends NewForwards, ForwardList, ForwardReplay, ForwardCancellation {}

interface ForwardsOptions {
  readonly store: Store;
  readonly collections: WebhookCollections;
  readonly destinations: Destinations;
  readonly bodies: ForwardBodies;
  readonly audit: Audit;
  readonly world: World;
}

export function createForwards({ store, collections, destinations, bodies, audit, world }: ForwardsOptions): Forwards {
  const list = createForwardList({ collections, destinations, bodies });
  return {
    ...createNewForwards({ collections, destinations, world }),
    ...list,
    ...createForwardCancellation({ store, collections, records: list, audit, world }),
    ...createForwardReplay({ store, collections, destinations, records: list, audit, world }),
  };
}
