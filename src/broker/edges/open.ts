import type { World } from "../../base/world.ts";
import type { Store } from "../../store/contract.ts";
import type { AccessBudgets } from "../access-sessions/budgets.ts";
import type { SessionCallers } from "../access-sessions/session-callers.ts";
import type { Audit } from "../audit/audit.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { Live, StoredConnections } from "../credentials/live-connections.ts";
import type { EdgeIdentities } from "../identities/edge-identities.ts";
import type { IdentityRoom } from "../identities/open.ts";
import type { PoliciesInForce } from "../policies/policies-in-force.ts";
import type { Quotas } from "../quotas/quotas.ts";
import type { SetupRoom } from "../setup/open.ts";
import type { LastUsedTimes } from "../stored/last-used.ts";
import { createEdgeAudit, type EdgeRefusal } from "./edge-audit.ts";
import { createEdgeBudgets } from "./edge-budgets.ts";
import { createEdgeChanges } from "./edge-changes.ts";
import { createEdgeConnections } from "./edge-connections.ts";
import { createEdgeKeys } from "./edge-keys.ts";
import { createEdgePasses } from "./edge-passes.ts";
import { createEdgePolicies } from "./edge-policies.ts";
import { createEdgeProviders } from "./edge-providers.ts";
import { createEdgeSetups } from "./edge-setups.ts";
import { createEdges, type Edges } from "./edges.ts";
import { createForwardParts, type ForwardPartsOptions } from "./forward/forward-parts.ts";
import { createStreamReader, type StreamReaderOptions } from "./stream-reader.ts";

/** Serves edges: sidecars without a store, which get what they need over one stream each. */
export interface EdgeRoom {
  readonly edges: Edges;
  readonly edgeAccess: EdgeAccess;
  close(): Promise<void>;
}

/** Identities of edges without a key, and what is noted of refused edges. */
export interface EdgeAccess extends Omit<EdgeIdentities, "configure"> {
  refused(refusal: EdgeRefusal): void;
}

interface EdgeRoomOptions extends Pick<ForwardPartsOptions, "hostRoutes" | "authorities"> {
  readonly store: Store;
  readonly collections: Pick<ConnectionCollections, "connections">;
  readonly setup: Pick<SetupRoom, "access" | "environments" | "integrations" | "providers"> &
    Pick<IdentityRoom, "edgeIdentities">;
  readonly sessionCallers: SessionCallers;
  readonly accessBudgets: AccessBudgets;
  readonly policies: PoliciesInForce;
  readonly live: Live & StoredConnections;
  readonly quotas: Quotas;
  readonly noteLackingScopes: StreamReaderOptions["noteLackingScopes"];
  readonly lastUsed: LastUsedTimes;
  readonly audit: Audit;
  readonly world: World;
}

export function openEdges(options: EdgeRoomOptions): EdgeRoom {
  const { store, collections, setup, sessionCallers, accessBudgets, live, quotas, lastUsed, audit, world } = options;
  const { access, environments, integrations, providers } = setup;
  const { edgePushes, edgeWants } = world.metrics;
  const pushed = (kind: string) => edgePushes.inc({ kind });
  const sources = { keys: access, sessions: sessionCallers };
  const keys = createEdgeKeys({ ...sources, caughtUp: () => store.caughtUp(), onPush: () => pushed("key") });
  const policies = createEdgePolicies({ inForce: options.policies, onPush: () => pushed("policies") });
  const edgeProviders = createEdgeProviders({ providers, onPush: () => pushed("provider") });
  const setups = createEdgeSetups({
    integrations,
    providers,
    edgeProviders,
    onPush: () => pushed("integration"),
    onIntegrationChange: (environment, key) => connections.integrationChanged(environment, key),
    world,
  });
  const edgeAudit = createEdgeAudit({ audit, world });
  const connections = createEdgeConnections({
    live,
    providers,
    setups,
    onPush: () => pushed("connection"),
    audit: edgeAudit,
    world,
  });
  const { routes, certify, authorities } = createForwardParts({ ...options, audit: edgeAudit, onPush: pushed });
  // Which hosts an integration has depends on its provider.
  const stopRoutes = providers.listen(routes.allChanged);
  const changes = createEdgeChanges({ store, collections, connections, setups, routes, world });
  const passes = createEdgePasses({ live, quotas });
  const read = createStreamReader({
    connections,
    keys,
    passes,
    drawRequests: createEdgeBudgets(sources, accessBudgets),
    routes,
    certify,
    noteLackingScopes: options.noteLackingScopes,
    lastUsed,
    onWant: (kind) => edgeWants.inc({ kind }),
    world,
  });
  const edges = createEdges({
    environments,
    changes,
    connections,
    keys,
    policies,
    setups,
    routes,
    authorities,
    read,
    audit: edgeAudit,
    world,
  });
  return {
    edges,
    edgeAccess: { ...setup.edgeIdentities, refused: edgeAudit.refused },
    async close() {
      stopRoutes();
      edges.close();
      await edgeAudit.close();
      await changes.close();
    },
  };
}
