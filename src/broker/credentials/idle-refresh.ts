import { timestampMs } from "@bufbuild/protobuf/wkt";
import { tokenRefreshOf } from "../../auth/credential-refresh.ts";
import type { World } from "../../base/world.ts";
import type { RefreshRecord } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Connection, Connection_State } from "../../gen/latchkey/v1/connection_pb.ts";
import { keyOf } from "../../store/keys.ts";
import type { PositionedRecord } from "../../store/records.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { Connections } from "../connections/connections.ts";
import { connectionPartition, ownPartition } from "../partitions/own-work.ts";
import type { Partitions } from "../partitions/partitions.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { Providers } from "../setup/providers.ts";
import { idleLimitMs } from "./idle-limit.ts";
import type { Refresher } from "./refresh/refresher.ts";

/**
 * Refreshes unused connections before their refresh tokens expire from disuse: those of this process's partitions. Scans
 * the connections of all integrations whose tokens expire so, a part each minute: a million in half a day. The scan costs
 * reads, but needs no key per connection in the store.
 */
export interface IdleRefresh {
  /** Scans the next part. Returns how many connections were refreshed. */
  step(signal: AbortSignal): Promise<number>;
}

interface IdleRefreshOptions {
  readonly partitions: Pick<Partitions, "held" | "all">;
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
/** A scan of few connections is not repeated at once: lifetimes of less than twice this are not kept alive. */
const scanEveryMs = 5 * 60_000;

export function createIdleRefresh(options: IdleRefreshOptions): IdleRefresh {
  const { partitions, collections, connections, integrations, providers, refresher, world } = options;
  let position: string | undefined;
  let scanBegan = Number.NEGATIVE_INFINITY;

  function mayBegin(): boolean {
    const sinceMs = world.now() - scanBegan;
    // Negative: the clock was set back.
    if (sinceMs >= 0 && sinceMs < scanEveryMs) return false;
    scanBegan = world.now();
    return true;
  }

  /** Reads the next connections, but passes over integrations whose connections stay valid without use. */
  async function nextPage(signal: AbortSignal): Promise<readonly PositionedRecord<Connection>[]> {
    while (!signal.aborted) {
      const [next] = await collections.connections.page({ under: [], after: position, limit: 1 });
      if (next === undefined || canExpire(next.value)) break;
      const { environment = "", integration = "" } = next.value.ref ?? {};
      // Sorts after all connections of this integration: NUL separates parts of keys.
      position = `${keyOf(environment, integration)}\x01`;
    }
    return collections.connections.page({ under: [], after: position, limit: perPage });
  }

  const canExpire = ({ provider }: Connection): boolean => idleLimitMs(providers.find(provider)) !== undefined;

  function isOwn({ ref }: Connection): boolean {
    if (ref === undefined) return false;
    const { environment, integration, id } = ref;
    return ownPartition(partitions, connectionPartition(environment, integration, id)) !== undefined;
  }

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
    async step(signal) {
      const until = performance.now() + stepMs;
      const mayContinue = () => !signal.aborted && performance.now() < until;
      let refreshed = 0;
      if (partitions.all().length === 0 || (position === undefined && !mayBegin())) return refreshed;
      for (let seen = 0; seen < perStep && mayContinue(); ) {
        const page = await nextPage(signal);
        const own = page.filter(({ value }) => isOwn(value) && canExpire(value));
        const refs = own.map(({ value: { ref } }) => [ref?.environment ?? "", ref?.integration ?? "", ref?.id ?? ""]);
        const records = await collections.refreshes.getMany(refs);
        for (const [i, { value, position: at }] of own.entries()) {
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
        position = page.at(-1)?.position;
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
