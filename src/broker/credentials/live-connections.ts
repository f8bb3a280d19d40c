import { equals } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { LRUCache } from "lru-cache";
import { Memo } from "../../base/memo.ts";
import type { World } from "../../base/world.ts";
import type { Connection, ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import { type Credentials, CredentialsSchema } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Integration, IntegrationSecrets } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { partsOf } from "../../store/keys.ts";
import { type ConnectionCollections, connectionTouchKey } from "../connections/connection-collections.ts";
import type { Connections } from "../connections/connections.ts";
import { credentialsExpireAt, lacksToken } from "../connections/credentials-expiry.ts";
import { areShortLived } from "../connections/health/refresh-bookkeeping.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { Providers } from "../setup/providers.ts";
import { type LastUsedTimes, touchedBy, type UsedThing } from "../stored/last-used.ts";
import { createRetryingReads } from "../stored/retrying-reads.ts";
import type { Refresher, RenewalReason } from "./refresh.ts";
import { lifeMsOf, renewAheadMs, renewalOf } from "./refresh-timing.ts";
import { tokenClient } from "./token-client.ts";

/** A connection with everything needed to use it, and credentials that are valid now. */
export interface LiveConnection {
  readonly connection: Connection;
  readonly integration: Integration;
  /** Secrets of the customer's app at the provider: some credentials sign with them. */
  readonly secrets: IntegrationSecrets | undefined;
  readonly provider: Provider;
  readonly credentials: Credentials;
  readonly seat?: CacheSlot;
}

/**
 * The cache slot of a connection, with what was derived from the connection and its credentials. Callers keep the slot
 * to find the connection again. Eviction empties the slot.
 */
export class CacheSlot extends Memo {
  live: LiveConnection | undefined = undefined;

  leave(): void {
    this.live = undefined;
    this.forget();
  }
}

export interface Live {
  /**
   * Returns a connection, refreshed first if its credentials have expired. Rejects with a Fault if the refresh fails.
   */
  get(ref: ConnectionRef, options?: { readonly forceRefresh: boolean }): Promise<LiveConnection>;
  /**
   * Returns the cached connection if it is valid, without a promise. `before` is its former slot, usually still
   * current.
   */
  peek(ref: ConnectionRef, before?: CacheSlot): LiveConnection | undefined;
  /** Called when the provider refused the credentials. Returns their replacement; undefined: there is none. */
  replacementOf(refused: LiveConnection): Promise<LiveConnection | undefined>;
  close(): void;
}

interface LiveOptions {
  readonly store: Store;
  readonly collections: ConnectionCollections;
  readonly connections: Connections;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly touches: LastUsedTimes;
  readonly refresher: Refresher;
  readonly world: World;
}

/** A cached connection. */
interface HeldConnection extends LiveConnection {
  /** The time until which the credentials are valid. */
  readonly goodUntil: number;
  /** The time from which credentials are refreshed in the background; moved forward by each attempt. */
  readonly aheadFrom: number;
  readonly touched: UsedThing;
}

class CachedConnection implements LiveConnection {
  /** Milliseconds since the cache was opened. Until then the entry is valid, and its use is already recorded. */
  sureUntil = 0;
  readonly seat = new CacheSlot();
  readonly connection: Connection;
  readonly integration: Integration;
  readonly secrets: IntegrationSecrets | undefined;
  readonly provider: Provider;
  readonly credentials: Credentials;
  readonly goodUntil: number;
  aheadFrom: number;
  readonly touched: UsedThing;

  constructor(held: HeldConnection) {
    this.connection = held.connection;
    this.integration = held.integration;
    this.secrets = held.secrets;
    this.provider = held.provider;
    this.credentials = held.credentials;
    this.goodUntil = held.goodUntil;
    this.aheadFrom = held.aheadFrom;
    this.touched = held.touched;
  }
}

/** Looks up the entry in the LRU cache this often, so that a busy connection is not the oldest and evicted. */
const lookedForEveryMs = 1_000;

const maxLive = 10_000;
/** Matches the keys that affect connections. Most changes do not match and need no further work. */
const isOfConnections = /^(?:connection|credentials|integration|integration-secrets|provider)\0/;
/** Limits the refreshes for one call. */
const maxRenewals = 3;
/** Wait after a failed background refresh, while the credentials are still valid. */
const aheadAgainMs = 30_000;

/** The only place that hands out connections for use. Cached connections are evicted when the store changes. */
export async function openLiveConnections(options: LiveOptions): Promise<Live> {
  const { store, collections, connections, integrations, providers, touches, refresher, world } = options;
  const begunAt = world.now();
  const hits = world.metrics.liveLookups.series({ result: "hit" });
  const misses = world.metrics.liveLookups.series({ result: "miss" });
  const patiently = createRetryingReads(world.log);
  const cache = new LRUCache<string, CachedConnection, ConnectionRef>({
    max: maxLive,
    // If an entry is evicted during its load, waiting callers still get it; the next caller reads the store again.
    ignoreFetchAbort: true,
    onInsert: (held) => {
      held.seat.live = held;
    },
    dispose: ({ seat }) => seat.leave(),
    fetchMethod: (_key, _stale, { context: ref }) => patiently(() => load(ref)),
  });

  const watch = await follow({
    store,
    world,
    spaces: ["connection", "credentials", "integration", "integration-secrets", "provider"],
    // Changes may have been missed: evict everything, to be read again on demand.
    read: async () => () => cache.clear(),
    onCommit({ changes }) {
      for (const { key } of changes) {
        if (!isOfConnections.test(key)) continue;
        const [space, environment = "", integration = "", id] = partsOf(key);
        if (space === "connection" || space === "credentials") cache.delete(`${environment}\0${integration}\0${id}`);
        // Integration or provider changed: rare, and every connection of it must be read again.
        if (space === "integration" || space === "integration-secrets" || space === "provider") cache.clear();
        if (space === "integration" || space === "integration-secrets") refresher.forgive(environment, integration);
      }
    },
  });

  async function load(ref: ConnectionRef): Promise<CachedConnection> {
    const at = { environment: ref.environment, key: ref.integration };
    const [{ value: connection }, { integration, secrets }, credentials] = await Promise.all([
      connections.get(ref),
      integrations.inUse(at),
      connections.credentialsOf(ref),
    ]);
    if (credentials === undefined) {
      // If the connection was deleted between the two reads, this throws. Missing credentials otherwise are a bug.
      await connections.get(ref);
      throw new Error("a connection has no credentials");
    }
    const provider = await providers.findNow(connection.provider);
    const isOfFormerClient = await hasOtherClient(ref, { credentials, integration, secrets });
    const until = isOfFormerClient ? 0 : goodUntil(credentials);
    const isRenewable = renewalOf({ credentials, provider, integration }) !== undefined;
    return new CachedConnection({
      ...{ connection, integration, secrets, provider, credentials },
      goodUntil: until,
      aheadFrom:
        isRenewable && Number.isFinite(until)
          ? renewAheadMs({ expiresAtMs: until, lifeMs: lifeMsOf(credentials), jitter: Math.random() })
          : Number.POSITIVE_INFINITY,
      touched: touchedBy(connectionTouchKey(ref.environment, ref.integration, ref.id)),
    });
  }

  /** Whether the integration's client has changed since the token was obtained, for example its secret. */
  async function hasOtherClient(ref: ConnectionRef, obtained: Parameters<typeof tokenClient>[0]): Promise<boolean> {
    const now = tokenClient(obtained);
    const then = now && (await collections.refreshes.get(ref.environment, ref.integration, ref.id))?.value.tokenClient;
    return now !== undefined && then !== undefined && then.length > 0 && Buffer.compare(now, then) !== 0;
  }

  const keyFor = ({ environment, integration, id }: ConnectionRef) => `${environment}\0${integration}\0${id}`;

  async function held(ref: ConnectionRef): Promise<CachedConnection> {
    const key = keyFor(ref);
    const known = cache.get(key);
    (known === undefined ? misses : hits).add();
    const found = known ?? (await cache.fetch(key, { context: ref }));
    if (found === undefined) throw new Error("a connection was loaded and not returned");
    return found;
  }

  async function renewedSince(
    ref: ConnectionRef,
    { credentials }: LiveConnection,
    why: RenewalReason,
  ): Promise<CachedConnection> {
    await refresher.renew(ref, { seen: credentials, why });
    // Our own change feed may lag behind this refresh, so evict now.
    cache.delete(keyFor(ref));
    return held(ref);
  }

  const isDue = ({ goodUntil: until }: CachedConnection): boolean => until <= world.now();

  /**
   * Whether the provider issues tokens without lifetime. Refreshing again gives no better ones, so this call uses them.
   */
  async function cameWithoutLife(ref: ConnectionRef, { credentials }: LiveConnection): Promise<boolean> {
    const record = await collections.refreshes.get(ref.environment, ref.integration, ref.id);
    return areShortLived(record?.value, credentialsExpireAt(credentials));
  }

  /** Refreshes in the background; no caller waits, since the current credentials are valid. */
  function renewAhead(ref: ConnectionRef, entry: CachedConnection, now: number): void {
    entry.aheadFrom = now + aheadAgainMs;
    refresher.renew(ref, { seen: entry.credentials, why: "due" }).catch((err: unknown) => {
      world.log.debug("credentials were not renewed ahead of time", { integration: ref.integration, err });
    });
  }

  return {
    peek(ref, before) {
      const now = world.now();
      const there = before?.live;
      if (there instanceof CachedConnection && now - begunAt < there.sureUntil) {
        hits.add();
        return there;
      }
      const known = cache.get(keyFor(ref));
      if (known === undefined || known.goodUntil <= now) return undefined;
      if (known.aheadFrom <= now) renewAhead(ref, known, now);
      hits.add();
      touches.touch(known.touched, now);
      known.sureUntil = Math.min(known.goodUntil, known.aheadFrom, now + lookedForEveryMs) - begunAt;
      return known;
    },
    async get(ref, { forceRefresh } = { forceRefresh: false }) {
      let found = await held(ref);
      let why: RenewalReason | undefined = isDue(found) ? "due" : undefined;
      if (forceRefresh && renewalOf(found) !== undefined) why = "requested";
      // Repeats if others replaced the credentials in the meantime, or the new ones expired before this call used them.
      for (let renewals = 0; why !== undefined && renewals < maxRenewals; renewals += 1) {
        const before: CachedConnection = found;
        found = await renewedSince(ref, before, why);
        const isOver = !isDue(found) || equals(CredentialsSchema, found.credentials, before.credentials);
        why = isOver || (await cameWithoutLife(ref, found)) ? undefined : "due";
      }
      touches.touch(found.touched);
      return found;
    },
    async replacementOf(refused) {
      const { ref } = refused.connection;
      if (ref === undefined || renewalOf(refused) === undefined) return undefined;
      const { credentials } = refused;
      const isOther = (held: CachedConnection) => !equals(CredentialsSchema, held.credentials, credentials);
      const known = await held(ref);
      if (isOther(known) && !isDue(known)) return known;
      // A token that expired on its way was refused for that reason: then the refresh is `due` and has no cool-down.
      const found = await renewedSince(ref, known, isDue(known) ? "due" : "refused");
      return isOther(found) ? found : undefined;
    },
    close() {
      patiently.close();
      watch.close();
    },
  };
}

/** When the credentials expire. Credentials supplied with only a refresh token are due at once. */
function goodUntil(credentials: Credentials): number {
  if (lacksToken(credentials)) return 0;
  const expiresAt = credentialsExpireAt(credentials);
  return expiresAt === undefined ? Number.POSITIVE_INFINITY : timestampMs(expiresAt);
}
