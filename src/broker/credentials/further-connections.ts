import { timestampMs } from "@bufbuild/protobuf/wkt";
import { tokenRefreshOf } from "../../auth/credential-refresh.ts";
import { furtherTokenNames, furtherTokenOf } from "../../auth/oauth2/further-tokens.ts";
import { createLateCache } from "../../base/caches/late-cache.ts";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Credentials } from "../../gen/latchkey/v1/credentials_pb.ts";
import { connectionKey } from "../connections/connection-collections.ts";
import { coolDownMs } from "../connections/health/refresh-bookkeeping.ts";
import type { LastUsedTimes } from "../stored/last-used.ts";
import { type CachedConnection, NamedConnection } from "./cached-connection.ts";
import type { ConnectionCache } from "./connection-cache.ts";
import type { LiveConnection } from "./live-connections.ts";
import type { RefreshReason } from "./refresh/refresh-request.ts";
import type { Refresher } from "./refresh/refresher.ts";
import { refreshAheadMs } from "./refresh-ahead.ts";

/** Connections whose requests carry a further token, each refreshed on its own. */
export interface FurtherConnections {
  peek(ref: ConnectionRef, token: string): LiveConnection | undefined;
  get(ref: ConnectionRef, token: string): Promise<LiveConnection>;
  replacementOf(ref: ConnectionRef, refused: Credentials, token: string): Promise<LiveConnection | undefined>;
}

interface FurtherConnectionsOptions {
  readonly cache: ConnectionCache;
  readonly refresher: Pick<Refresher, "renew">;
  readonly lastUsed: LastUsedTimes;
  readonly world: World;
}

/** Limits the refreshes for one call. */
const maxRenewals = 3;
/** Wait after a failed background refresh, while the token is still valid. */
const aheadAgainMs = 30_000;

export function createFurtherConnections(options: FurtherConnectionsOptions): FurtherConnections {
  const { cache, refresher, lastUsed, world } = options;
  /** Tokens that were refreshed because the provider refused them: the next ones may be refused as well. */
  const refusedLately = createLateCache<true>({ max: 10_000, ttl: coolDownMs });

  async function refreshed(ref: ConnectionRef, base: CachedConnection, token: string, why: RefreshReason) {
    await refresher.renew(ref, { seen: base.credentials, why, token });
    cache.evict(ref);
    return cache.get(ref);
  }

  return {
    peek(ref, token) {
      const base = cache.peek(ref);
      const found = base && namedOf(base, token);
      const now = world.now();
      if (base === undefined || found === undefined || found.validUntil <= now) return undefined;
      if (found.refreshFrom <= now) {
        found.refreshFrom = now + aheadAgainMs;
        refresher.renew(ref, { seen: base.credentials, why: "due", token }).catch((err: unknown) => {
          world.log.debug("background refresh of a further token failed", { integration: ref.integration, err });
        });
      }
      lastUsed.touch(base.lastUse, now);
      return found;
    },
    async get(ref, token) {
      let base = await cache.get(ref);
      for (let renewals = 0; ; renewals += 1) {
        const found = namedOf(base, token);
        if (found === undefined) throw unknownToken(base.credentials, token);
        if (found.validUntil > world.now() || renewals === maxRenewals) {
          lastUsed.touch(base.lastUse);
          return found;
        }
        base = await refreshed(ref, base, token, "due");
      }
    },
    async replacementOf(ref, refused, token) {
      const before = furtherTokenOf(refused, token)?.accessToken;
      const isOther = ({ credentials }: LiveConnection) => furtherTokenOf(credentials, token)?.accessToken !== before;
      const base = await cache.get(ref);
      const known = namedOf(base, token);
      if (known === undefined) return undefined;
      if (isOther(known) && known.validUntil > world.now()) return known;
      const key = `${connectionKey(ref)}\0${token}`;
      if (refusedLately.has(key) || tokenRefreshOf(base, token) === undefined) return undefined;
      refusedLately.set(key, true);
      const found = namedOf(await refreshed(ref, base, token, "refused"), token);
      return found !== undefined && isOther(found) ? found : undefined;
    },
  };
}

/** Returns the connection with a further token, made once for each cached connection. */
function namedOf(base: CachedConnection, token: string): NamedConnection | undefined {
  const known = base.named?.get(token);
  if (known !== undefined) return known;
  const named = furtherTokenOf(base.credentials, token);
  if (named === undefined) return undefined;
  const { expiresAt, accessToken } = named;
  const validUntil =
    accessToken === "" ? 0 : expiresAt === undefined ? Number.POSITIVE_INFINITY : timestampMs(expiresAt);
  const isRenewable = Number.isFinite(validUntil) && tokenRefreshOf(base, token) !== undefined;
  const refreshFrom = isRenewable
    ? refreshAheadMs({ expiresAtMs: validUntil, lifeMs: undefined, jitter: Math.random() })
    : Number.POSITIVE_INFINITY;
  const made = new NamedConnection(base, token, { validUntil, refreshFrom });
  base.named ??= new Map();
  base.named.set(token, made);
  return made;
}

function unknownToken(credentials: Credentials, token: string): Fault {
  const names = furtherTokenNames(credentials);
  const known = names.length === 0 ? "it has only the main one" : `it has ${names.join(", ")}`;
  return new Fault("invalid_headers", `Latchkey-Token: the connection has no token "${token}"; ${known}`);
}
