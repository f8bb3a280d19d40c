import { LRUCache } from "lru-cache";
import type { World } from "../../base/world.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { partsOf } from "../../store/keys.ts";
import { connectionKey } from "../connections/connection-collections.ts";
import type { CachedConnection } from "./cached-connection.ts";
import type { LoadConnection } from "./connection-loader.ts";

/** The connections in use. A change in the store evicts the connections that it affects. */
export interface ConnectionCache {
  /** Returns the connection, loaded if the cache does not hold it. Concurrent callers share one load. */
  get(ref: ConnectionRef): Promise<CachedConnection>;
  /** Returns the connection if the cache holds it. */
  peek(ref: ConnectionRef): CachedConnection | undefined;
  evict(ref: ConnectionRef): void;
  close(): void;
}

interface ConnectionCacheOptions {
  readonly store: Store;
  readonly load: LoadConnection;
  readonly hits: { add(): void };
  /** Called when an integration or its secrets have changed. */
  readonly onIntegrationChange: (environment: string, integration: string) => void;
  readonly world: World;
}

const maxLive = 10_000;
/** Matches other keys that affect connections. Most changes do not match and need no further work. */
const isOfIntegrations = /^(?:integration|integration-secrets|provider)\0/;
/** Spaces whose keys go on with that of the connection, as `connectionKey` returns it. */
const ofConnection = ["connection\0", "credentials\0"];

export async function openConnectionCache(options: ConnectionCacheOptions): Promise<ConnectionCache> {
  const { store, load, hits, onIntegrationChange, world } = options;
  const misses = world.metrics.liveLookups.series({ result: "miss" });
  const create = () =>
    new LRUCache<string, CachedConnection, ConnectionRef>({
      max: maxLive,
      // If an entry is evicted during its load, waiting callers still get it; the next caller reads the store again.
      ignoreFetchAbort: true,
      onInsert: (entry) => {
        entry.slot.live = entry;
      },
      dispose: (entry) => entry.leave(),
      fetchMethod: (_key, _stale, { context: ref }) => load(ref),
    });
  /** Takes its memory with its first entry. */
  let cache: ReturnType<typeof create> | undefined;

  /** Integration or provider changed: rare, and every connection of it must be read again. */
  function onOtherChange(key: string): void {
    const [space, environment = "", integration = ""] = partsOf(key);
    cache?.clear();
    if (space !== "provider") onIntegrationChange(environment, integration);
  }

  const watch = await follow({
    store,
    world,
    spaces: ["connection", "credentials", "integration", "integration-secrets", "provider"],
    // Changes may have been missed: evict everything, to be read again on demand.
    read: async () => () => cache?.clear(),
    onCommit({ changes }) {
      for (const { key } of changes) {
        const space = ofConnection.find((one) => key.startsWith(one));
        // An import changes thousands, none of which is cached.
        if (space !== undefined && cache !== undefined && cache.size > 0) cache.delete(key.slice(space.length));
        if (space !== undefined || !isOfIntegrations.test(key)) continue;
        onOtherChange(key);
      }
    },
  });

  return {
    async get(ref) {
      const key = connectionKey(ref);
      cache ??= create();
      const known = cache.get(key);
      (known === undefined ? misses : hits).add();
      const found = known ?? (await cache.fetch(key, { context: ref }));
      if (found === undefined) throw new Error("a connection was loaded but not returned");
      return found;
    },
    peek: (ref) => cache?.get(connectionKey(ref)),
    evict: (ref) => void cache?.delete(connectionKey(ref)),
    close: () => watch.close(),
  };
}
