import type { World } from "../../base/world.ts";
import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { Change } from "../../store/contract.ts";
import type { Records } from "../../store/records.ts";
import type { SealedStore } from "../../store/sealed/sealed.ts";
import type { Audit } from "../audit/audit.ts";
import type { LastUsedTimes } from "../stored/last-used.ts";
import { type Access, openAccess } from "./access.ts";
import { createEnvironments, type Environments } from "./environments.ts";
import { createIntegrations, type Integrations } from "./integrations.ts";
import { openProviders, type Providers } from "./providers.ts";
import type { SetupCollections } from "./setup-collections.ts";
import { openSigningSecrets, type SigningSecrets } from "./signing-secrets.ts";
import { createWebhookUrls, type WebhookUrls } from "./webhook-urls.ts";

/** The operators' setup: keys, environments, providers and integrations. */
export interface SetupRoom {
  readonly access: Access;
  readonly providers: Providers;
  readonly signingSecrets: SigningSecrets;
  readonly environments: Environments;
  readonly integrations: Integrations;
  readonly webhookUrls: WebhookUrls;
  close(): void;
}

interface SetupRoomOptions {
  readonly store: SealedStore;
  readonly collections: SetupCollections & { readonly connections: Records<Connection> };
  readonly catalogue: ReadonlyMap<string, Provider>;
  readonly publicUrl: () => string;
  readonly lastUsed: LastUsedTimes;
  readonly audit: Audit;
  /** Returns the changes that delete the access sessions of an environment. */
  readonly deletionOfSessions: (environment: string) => Promise<Change[]>;
  readonly world: World;
}

export async function openSetup(options: SetupRoomOptions): Promise<SetupRoom> {
  const { store, collections, catalogue, publicUrl, lastUsed, audit, deletionOfSessions, world } = options;
  const access = await openAccess({ store, collections, lastUsed, audit, world });
  const providers = await openProviders({ store, collections, catalogue, audit, world });
  const signingSecrets = await openSigningSecrets({ store, collections, audit, world });
  const environments = createEnvironments({
    store,
    collections,
    access,
    signingSecrets,
    deletionOfSessions,
    audit,
    world,
  });
  const integrations = createIntegrations({ store, collections, providers, audit, world });
  return {
    access,
    providers,
    signingSecrets,
    environments,
    integrations,
    webhookUrls: createWebhookUrls({ environments, publicUrl }),
    close() {
      providers.close();
      signingSecrets.close();
      access.close();
    },
  };
}
