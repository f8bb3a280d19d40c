import { timestampMs } from "@bufbuild/protobuf/wkt";
import { tokenRefreshOf } from "../../auth/credential-refresh.ts";
import type { World } from "../../base/world.ts";
import type { RefreshRecord } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Connection, Connection_State } from "../../gen/latchkey/v1/connection_pb.ts";
import { keyOf } from "../../store/keys.ts";
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
 * the connections of all integrations whose refresh tokens expire without use, a part each minute: a million in half a day.
 * The scan costs reads, but needs no key per connection in the store.
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
/**
 * A scan of few connections is not repeated at once. Rounds come each minute, so a scan begins every five minutes: idle
 * lifetimes of less than twice that are not kept alive.
 */
const scanEveryMs = 4.5 * 60_000;

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

  const read = (limit: number) => collections.connections.page({ under: [], after: position, limit });

  /** Nothing is known of a provider that is gone. */
  function canExpire({ provider: name }: Connection): boolean {
    const provider = providers.lookUp(name);
    return provider !== undefined && idleLimitMs(provider) !== undefined;
  }

  /** All connections of an integration have its provider. */
  function passOverIntegration({ ref }: Connection): void {
    const { environment = "", integration = "" } = ref ?? {};
    // Sorts after all its connections: NUL separates parts of keys.
    position = `${keyOf(environment, integration)}\x01`;
  }

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

  async function refreshPage(
    mayContinue: () => boolean,
  ): Promise<{ readonly seen: number; readonly refreshed: number }> {
    const page = await read(perPage);
    const own = page.filter(({ value }) => isOwn(value) && canExpire(value));
    const refs = own.map(({ value: { ref } }) => [ref?.environment ?? "", ref?.integration ?? "", ref?.id ?? ""]);
    const records = await collections.refreshes.getMany(refs);
    let refreshed = 0;
    for (const [i, { value, position: at }] of own.entries()) {
      if (!mayContinue()) return { seen: i, refreshed };
      try {
        if (await refreshIfDue(value, records[i]?.value)) refreshed += 1;
      } catch (err) {
        // The failure is stored with the connection. One failed connection does not keep the others from a refresh.
        world.log.debug("unused connection not refreshed", { connection: value.ref?.id, err });
      }
      position = at;
    }
    // The page is empty if its connections were deleted meanwhile.
    position = page.at(-1)?.position ?? position;
    return { seen: page.length, refreshed };
  }

  return {
    async step(signal) {
      const until = performance.now() + stepMs;
      const mayContinue = () => !signal.aborted && performance.now() < until;
      let refreshed = 0;
      if (partitions.all().length === 0 || (position === undefined && !mayBegin())) return refreshed;
      for (let seen = 0; seen < perStep && mayContinue(); ) {
        const [next] = await read(1);
        if (next === undefined) {
          position = undefined;
          break;
        }
        if (canExpire(next.value)) {
          const page = await refreshPage(mayContinue);
          seen += page.seen;
          refreshed += page.refreshed;
        } else {
          passOverIntegration(next.value);
          seen += 1;
        }
      }
      return refreshed;
    },
  };
}

const lastRefreshedMs = ({ createdAt }: Connection, record: RefreshRecord | undefined): number => {
  const at = record?.lastSucceededAt ?? record?.grantedAt ?? createdAt;
  return at === undefined ? 0 : timestampMs(at);
};
