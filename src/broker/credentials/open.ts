import type { SendSmallRequest } from "../../base/small-requests.ts";
import type { Restoration } from "../../store/contract.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { Connections } from "../connections/connections.ts";
import type { ConnectionHealth } from "../connections/health/health.ts";
import type { SharedServices } from "../deliveries/open.ts";
import type { TokenEndpoint } from "../tokens/token-endpoint.ts";
import { createTokenEndpoint } from "../tokens/token-requests.ts";
import { type Attachments, createAttachments } from "./attachments.ts";
import { type AskWithConnection, createConnectionRequests } from "./connection-request.ts";
import { createExplain, type Explain } from "./explain.ts";
import { createGrantCount, type GrantCount } from "./grant-count.ts";
import { createIdleRefresh, type IdleRefresh } from "./idle-refresh.ts";
import type { Live, StoredConnections } from "./live-connections.ts";
import { createSubjectConnections } from "./on-behalf/subject-connections.ts";
import { createSubjectTokens } from "./on-behalf/subject-tokens.ts";
import { openLiveConnections } from "./open-live-connections.ts";
import { createProviderRequests, type ProviderRequests } from "./provider-requests.ts";
import { createRefresher } from "./refresh/refresher.ts";

/** Connections with valid credentials: loads, refreshes and attaches credentials, and sends requests with them. */
export interface CredentialsRoom {
  readonly attachments: Attachments;
  readonly tokens: TokenEndpoint;
  readonly askWith: AskWithConnection;
  readonly asks: ProviderRequests;
  readonly grants: GrantCount;
  readonly live: Live & StoredConnections;
  readonly explain: Explain;
  /** Refreshes unused connections before their refresh tokens expire. */
  readonly idleRefresh: IdleRefresh;
  close(): Promise<void>;
}

interface CredentialsRoomOptions {
  readonly shared: SharedServices;
  readonly collections: ConnectionCollections;
  readonly health: ConnectionHealth;
  readonly connections: Connections;
  /** Sends requests to providers. */
  readonly send: SendSmallRequest;
  readonly leaseMs: number | undefined;
  /** Returns the backup that the store was restored from. */
  readonly restorationOf: () => Promise<Restoration | undefined>;
}

export async function openCredentials(options: CredentialsRoomOptions): Promise<CredentialsRoom> {
  const { shared, collections, health, connections, send, leaseMs, restorationOf } = options;
  const { store, integrations, providers, lastUsed, logs, world } = shared;
  const attachments = createAttachments(world);
  const tokens = createTokenEndpoint({ send, world });
  const askWith = createConnectionRequests({ attachments, send, world });
  const asks = createProviderRequests({ askWith, world });
  const grants = createGrantCount({ collections, logs, world });
  const refresher = createRefresher({
    leaseMs,
    store,
    health,
    integrations,
    providers,
    tokens,
    grants,
    restorationOf,
    world,
  });
  const live = await openLiveConnections({
    store,
    collections,
    connections,
    integrations,
    providers,
    lastUsed,
    refresher,
    subjects: createSubjectConnections({ subjects: createSubjectTokens({ send, world }), endpoint: tokens, world }),
    world,
  });
  const idleRefresh = createIdleRefresh({
    partitions: shared.partitions,
    collections,
    connections,
    integrations,
    providers,
    refresher,
    world,
  });
  return {
    attachments,
    tokens,
    askWith,
    asks,
    grants,
    live,
    idleRefresh,
    explain: createExplain({ live, attachments }),
    async close() {
      await refresher.close();
      live.close();
    },
  };
}
