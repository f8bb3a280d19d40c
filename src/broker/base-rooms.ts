import type { World } from "../base/world.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";
import type { Backend } from "../store/contract.ts";
import type { SealedStore } from "../store/sealed/sealed.ts";
import { openAudit } from "./audit/open.ts";
import { openCallers } from "./callers.ts";
import { createCollections } from "./collections.ts";
import { createLookupFields } from "./connections/lookup/lookup-fields.ts";
import { openDeliveries } from "./deliveries/open.ts";
import { openPartitions } from "./partitions/partitions.ts";
import { openSignIn } from "./sign-in/open.ts";
import { createLastUsedTimes } from "./stored/last-used.ts";

interface BaseRoomsOptions {
  readonly store: SealedStore;
  readonly backend: Backend;
  readonly catalogue: ReadonlyMap<string, Provider>;
  readonly publicUrl: () => string;
  readonly workTermMs?: number | undefined;
  readonly world: World;
}

/** Opens the rooms that all others use, and the collections. */
export async function openBaseRooms(
  { store, backend, catalogue, publicUrl, workTermMs, world }: BaseRoomsOptions,
  deletionOfSessions: Parameters<typeof openCallers>[0]["deletionOfSessions"],
) {
  const lookupFields = createLookupFields();
  const collections = createCollections(store, {
    fieldsOf: lookupFields.of,
    sharedAccountOf: lookupFields.sharedAccountOf,
    areRowsWritten: () => lookupFields.rows.isWritten,
  });
  const lastUsed = createLastUsedTimes({ store, world });
  const partitions = await openPartitions({ store, isShared: backend.isShared, termMs: workTermMs, world });
  const auditing = openAudit({ store, collections, world });
  const { audit } = auditing;
  const setup = await openCallers({
    store,
    collections,
    catalogue,
    publicUrl,
    lastUsed,
    audit,
    deletionOfSessions,
    world,
  });
  lookupFields.askOf(setup.providers);
  const signIn = openSignIn({ store, collections, access: setup.access, lastUsed, audit, world });
  const outgoing = await openDeliveries({ store, collections, audit, world });
  return { lookupFields, collections, lastUsed, partitions, auditing, setup, signIn, outgoing };
}
