import type { World } from "../../base/world.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { SealedStore } from "../../store/sealed/sealed.ts";
import { type Audit, createAudit } from "../audit/audit.ts";
import { createLogs, type Logs } from "../audit/logs.ts";
import { type Collections, createCollections } from "../collections.ts";
import { type Destinations, openDestinations } from "../deliveries/destinations.ts";
import { createEvents, type Events } from "../deliveries/events.ts";
import { createForwardBodies, type ForwardBodies } from "../deliveries/forward-bodies.ts";
import { createForwards, type Forwards } from "../deliveries/forwards.ts";
import { createLastUsedTimes, type LastUsedTimes } from "../stored/last-used.ts";
import { type Access, openAccess } from "./access.ts";
import { createEnvironments, type Environments } from "./environments.ts";
import { createIntegrations, type Integrations } from "./integrations.ts";
import { createLookupFields, type LookupFields } from "./lookup-fields.ts";
import { openProviders, type Providers } from "./providers.ts";
import { openSigningSecrets, type SigningSecrets } from "./signing-secrets.ts";

/** Services that the rest of the broker depends on: store, access, setup, audit, logs and events. */
export interface SharedServices {
  readonly store: SealedStore;
  readonly collections: Collections;
  readonly world: World;
  readonly lookupFields: LookupFields;
  readonly touches: LastUsedTimes;
  readonly audit: Audit;
  readonly access: Access;
  readonly providers: Providers;
  readonly signingSecrets: SigningSecrets;
  readonly environments: Environments;
  readonly integrations: Integrations;
  readonly logs: Logs;
  readonly destinations: Destinations;
  readonly bodies: ForwardBodies;
  readonly forwards: Forwards;
  readonly events: Events;
  /** Closes these services. Call it after closing everything that uses them. */
  close(): Promise<void>;
}

interface SharedServicesOptions {
  readonly store: SealedStore;
  readonly catalogue: ReadonlyMap<string, Provider>;
  readonly world: World;
}

export async function openSetup({ store, catalogue, world }: SharedServicesOptions): Promise<SharedServices> {
  const lookupFields = createLookupFields();
  const collections = createCollections(store, { fieldsOf: lookupFields.of });
  const touches = createLastUsedTimes({ store, world });
  const audit = createAudit({ collections, world });
  const access = await openAccess({ store, collections, touches, audit, world });
  const providers = await openProviders({ store, collections, catalogue, audit, world });
  lookupFields.askOf(providers);
  const signingSecrets = await openSigningSecrets({ store, collections, audit, world });
  const environments = createEnvironments({ store, collections, access, signingSecrets, audit, world });
  const integrations = createIntegrations({ store, collections, providers, audit, world });
  const logs = createLogs({ store, collections, world });
  const destinations = await openDestinations({ store, collections, audit, world });
  const bodies = createForwardBodies(collections);
  const forwards = createForwards({ store, collections, destinations, bodies, audit, world });
  const events = createEvents({ forwards, world });
  return {
    ...{ store, collections, world, lookupFields, touches, audit, access, providers, signingSecrets },
    ...{ environments, integrations, logs, destinations, bodies, forwards, events },
    async close() {
      destinations.close();
      providers.close();
      signingSecrets.close();
      access.close();
      await touches.close();
    },
  };
}
