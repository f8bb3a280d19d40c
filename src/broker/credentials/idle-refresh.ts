import { timestampMs } from "@bufbuild/protobuf/wkt";
import { tokenRefreshOf } from "../../auth/credential-refresh.ts";
import type { World } from "../../base/world.ts";
import type { RefreshRecord } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Connection, Connection_State } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Lease } from "../../store/leases.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { Connections } from "../connections/connections.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { Providers } from "../setup/providers.ts";
import { idleLimitMs } from "./idle-limit.ts";
import type { Refresher } from "./refresh/refresher.ts";

/**
 * Refreshes unused connections before their refresh tokens expire from disuse. Scans all connections, a part each
 * minute: a million in half a day. The scan costs reads, but needs no key per connection in the store.
 */
export interface IdleRefresh {
  /** Scans the next part. Returns how many connections were refreshed. */
  step(request: RefreshStep): Promise<number>;
}

export interface RefreshStep {
  /** The housekeeping lease: only one of several replicas scans. */
  readonly lease: Pick<Lease, "remainingMs">;
  readonly signal: AbortSignal;
}

interface IdleRefreshOptions {
  readonly collections: ConnectionCollections;
  readonly connections: Connections;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly refresher: Refresher;
  readonly world: World;
}

const perPage = 200;
const perStep = 1_500;
/** Bounds a step, so that a slow provider does not delay the others forever. */
const stepMs = 45_000;

export function createIdleRefresh(options: IdleRefreshOptions): IdleRefresh {
  const { collections, connections, integrations, providers, refresher, world } = options;
  let position: string | undefined;

  async function refreshIfDue(connection: Connection, record: RefreshRecord | undefined): Promise<boolean> {
    const { ref, state, provider: name } = connection;
    if (ref === undefined || state === Connection_State.REAUTHORIZATION_REQUIRED) return false;
    const provider = providers.find(name);
    const limitMs = idleLimitMs(provider);
    if (limitMs === undefined || world.now() - lastRefreshedMs(connection, record) < limitMs) return false;
    const credentials = await connections.credentialsOf(ref);
    const { value: integration } = await integrations.get({ environment: ref.environment, key: ref.integration });
    if (credentials === undefined) return false;
    const renewal = tokenRefreshOf({ credentials, provider, integration });
    if (renewal?.grant.type !== "refresh_token") return false;
    await refresher.renew(ref, { seen: credentials, why: "due" });
    return true;
  }

  return {
    async step({ lease, signal }) {
      const until = performance.now() + stepMs;
      const mayContinue = () => !signal.aborted && lease.remainingMs() > 0 && performance.now() < until;
      let refreshed = 0;
      for (let seen = 0; seen < perStep && mayContinue(); ) {
        const page = await collections.connections.page({ under: [], after: position, limit: perPage });
        const refs = page.map(({ value: { ref } }) => [ref?.environment ?? "", ref?.integration ?? "", ref?.id ?? ""]);
        const records = await collections.refreshes.getMany(refs);
        for (const [i, { value, position: at }] of page.entries()) {
          if (!mayContinue()) return refreshed;
          try {
            if (await refreshIfDue(value, records[i]?.value)) refreshed += 1;
          } catch (err) {
            // The failure is stored with the connection. One failed connection does not keep the others from a refresh.
            world.log.debug("unused connection not refreshed", { connection: value.ref?.id, err });
          }
          position = at;
        }
        seen += page.length;
        if (page.length === perPage) continue;
        position = undefined;
        break;
      }
      return refreshed;
    },
  };
}

const lastRefreshedMs = ({ createdAt }: Connection, record: RefreshRecord | undefined): number => {
  const at = record?.lastSucceededAt ?? record?.grantedAt ?? createdAt;
  return at === undefined ? 0 : timestampMs(at);
};
