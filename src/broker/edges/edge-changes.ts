import type { World } from "../../base/world.ts";
import type { Store, Watch } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { partsOf } from "../../store/keys.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { EdgeConnections } from "./edge-connections.ts";
import type { EdgeSetups } from "./edge-setups.ts";
import type { EdgeRoutes } from "./forward/edge-routes.ts";

interface EdgeChangesOptions {
  readonly store: Store;
  readonly collections: Pick<ConnectionCollections, "connections">;
  readonly connections: Pick<EdgeConnections, "changed" | "integrationChanged" | "allChanged">;
  readonly setups: Pick<EdgeSetups, "integrationChanged" | "allChanged">;
  readonly routes: Pick<EdgeRoutes, "connectionChanged" | "integrationChanged" | "allChanged">;
  readonly world: World;
}

/** The first parts of the keys that edges depend on. Keys and providers are followed elsewhere. */
const spaces = ["connection", "credentials", "integration", "integration-secrets"];
/** Most changes do not match and need no further work. */
const isOfEdges = /^(?:connection|credentials|integration|integration-secrets)\0/;

/** Tells which connections and integrations the store has changed, from the first edge on. */
export interface EdgeChanges {
  /** Resolves when no change is missed from here on. */
  start(): Promise<void>;
  close(): Promise<void>;
}

export function createEdgeChanges(options: EdgeChangesOptions): EdgeChanges {
  const { store, collections, connections, setups, routes, world } = options;
  let watch: Promise<Watch> | undefined;

  const begin = (): Promise<Watch> =>
    follow({
      store,
      world,
      spaces,
      // Changes may have been missed: compare everything.
      read: async () => () => {
        connections.allChanged();
        setups.allChanged();
        routes.allChanged();
      },
      onCommit({ changes, revision }) {
        for (const change of changes) {
          if (!isOfEdges.test(change.key)) continue;
          const [space, environment = "", integration = "", id = ""] = partsOf(change.key);
          const named = { environment, integration, id };
          if (space === "credentials") connections.changed(named);
          else if (space === "connection") {
            const recordOf = () => collections.connections.read(change, revision)?.value;
            connections.changed(named, recordOf);
            routes.connectionChanged(named, recordOf);
          } else {
            routes.integrationChanged(environment);
            setups.integrationChanged(environment, integration);
            connections.integrationChanged(environment, integration);
          }
        }
      },
    });

  return {
    async start() {
      watch ??= begin();
      try {
        await watch;
      } catch (error) {
        watch = undefined;
        throw error;
      }
    },
    async close() {
      (await watch?.catch(() => undefined))?.close();
    },
  };
}
