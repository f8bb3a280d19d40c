import { equals } from "@bufbuild/protobuf";
import { credentialsExpireAt } from "../../auth/credential-life.ts";
import { tokenRefreshOf } from "../../auth/credential-refresh.ts";
import type { World } from "../../base/world.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import { CredentialsSchema } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Store } from "../../store/contract.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { Connections } from "../connections/connections.ts";
import { areShortLived } from "../connections/health/refresh-bookkeeping.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { Providers } from "../setup/providers.ts";
import type { LastUsedTimes } from "../stored/last-used.ts";
import { CachedConnection } from "./cached-connection.ts";
import { openConnectionCache } from "./connection-cache.ts";
import { createConnectionLoader } from "./connection-loader.ts";
import { createFurtherConnections } from "./further-connections.ts";
import type { Live, LiveConnection, StoredConnections } from "./live-connections.ts";
import { SubjectConnection } from "./on-behalf/subject-connection.ts";
import type { SubjectConnections } from "./on-behalf/subject-connections.ts";
import type { RefreshReason } from "./refresh/refresh-request.ts";
import type { Refresher } from "./refresh/refresher.ts";

interface LiveOptions {
  readonly store: Store;
  readonly collections: ConnectionCollections;
  readonly connections: Connections;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly lastUsed: LastUsedTimes;
  readonly refresher: Refresher;
  readonly subjects: SubjectConnections;
  readonly world: World;
}

/** Looks up the entry in the LRU cache this often, so that a busy connection is not the oldest and evicted. */
const lookedForEveryMs = 1_000;
/** Limits the refreshes for one call. */
const maxRenewals = 3;
/** Wait after a failed background refresh, while the credentials are still valid. */
const aheadAgainMs = 30_000;

/** Joins the cache of connections with their refreshes. */
export async function openLiveConnections(options: LiveOptions): Promise<Live & StoredConnections> {
  const { store, collections, connections, integrations, providers, lastUsed, refresher, subjects, world } = options;
  const begunAt = world.now();
  const hits = world.metrics.liveLookups.series({ result: "hit" });
  const load = createConnectionLoader({ collections, connections, integrations, providers });
  const cache = await openConnectionCache({ store, load, hits, onIntegrationChange: refresher.forgive, world });

  async function refreshed(
    ref: ConnectionRef,
    { credentials }: LiveConnection,
    why: RefreshReason,
  ): Promise<CachedConnection> {
    await refresher.renew(ref, { seen: credentials, why });
    // Our own change feed may lag behind this refresh, so evict now.
    cache.evict(ref);
    return cache.get(ref);
  }

  const isDue = ({ validUntil }: CachedConnection): boolean => validUntil <= world.now();

  /**
   * Whether the provider issues tokens without lifetime. Refreshing again gives no better ones, so this call uses them.
   */
  async function hasNoLifetime(ref: ConnectionRef, { credentials }: LiveConnection): Promise<boolean> {
    const record = await collections.refreshes.get(ref.environment, ref.integration, ref.id);
    return areShortLived(record?.value, credentialsExpireAt(credentials));
  }

  /** Refreshes in the background; no caller waits, since the current credentials are valid. */
  function refreshAhead(ref: ConnectionRef, entry: CachedConnection, now: number): void {
    entry.refreshFrom = now + aheadAgainMs;
    refresher.renew(ref, { seen: entry.credentials, why: "due" }).catch((err: unknown) => {
      world.log.debug("background refresh failed; retrying in 30 s", { integration: ref.integration, err });
    });
  }

  const further = createFurtherConnections({ cache, refresher, lastUsed, world });

  return {
    peek(ref, before, token) {
      if (token !== undefined) return further.peek(ref, token);
      const now = world.now();
      const held = before?.live;
      if (held instanceof CachedConnection && now - begunAt < held.sureUntil) {
        hits.add();
        return held;
      }
      const known = cache.peek(ref);
      if (known === undefined || known.validUntil <= now) return undefined;
      if (known.refreshFrom <= now) refreshAhead(ref, known, now);
      hits.add();
      lastUsed.touch(known.lastUse, now);
      known.sureUntil = Math.min(known.validUntil, known.refreshFrom, now + lookedForEveryMs) - begunAt;
      return known;
    },
    async get(ref, { forceRefresh = false, token, subject } = {}) {
      if (token !== undefined) return further.get(ref, token);
      let found = await cache.get(ref);
      if (subject !== undefined) {
        lastUsed.touch(found.lastUse);
        return subjects.get(found, subject);
      }
      let why: RefreshReason | undefined = isDue(found) ? "due" : undefined;
      if (forceRefresh && tokenRefreshOf(found) !== undefined) why = "requested";
      // Repeats if others replaced the credentials in the meantime, or the new ones expired before this call used them.
      for (let renewals = 0; why !== undefined && renewals < maxRenewals; renewals += 1) {
        const before: CachedConnection = found;
        found = await refreshed(ref, before, why);
        const isOver = !isDue(found) || equals(CredentialsSchema, found.credentials, before.credentials);
        why = isOver || (await hasNoLifetime(ref, found)) ? undefined : "due";
      }
      lastUsed.touch(found.lastUse);
      return found;
    },
    async replacementOf(refused, { subject } = {}) {
      const { ref } = refused.connection;
      if (refused instanceof SubjectConnection) return subjects.replacementOf(refused, cache.get, subject);
      if (ref !== undefined && refused.token !== undefined) {
        return further.replacementOf(ref, refused.credentials, refused.token);
      }
      if (ref === undefined || tokenRefreshOf(refused) === undefined) return undefined;
      const { credentials } = refused;
      const isOther = (entry: CachedConnection) => !equals(CredentialsSchema, entry.credentials, credentials);
      const known = await cache.get(ref);
      if (isOther(known) && !isDue(known)) return known;
      // A token that expired on its way was refused for that reason: then the refresh is `due` and has no cool-down.
      const found = await refreshed(ref, known, isDue(known) ? "due" : "refused");
      return isOther(found) ? found : undefined;
    },
    stored: (ref) => cache.get(ref),
    async refreshSoon(ref) {
      const { credentials, refreshFrom } = await cache.get(ref);
      if (refreshFrom > world.now()) return;
      await refresher.renew(ref, { seen: credentials, why: "due" });
      cache.evict(ref);
    },
    close: () => cache.close(),
  };
}
