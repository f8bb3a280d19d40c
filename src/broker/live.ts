import { timestampMs } from "@bufbuild/protobuf/wkt";
import { LRUCache } from "lru-cache";
import { Fault } from "../base/fault.ts";
import type { World } from "../base/world.ts";
import { credentialsExpireAt } from "../core/credentials-expiry.ts";
import type { Connection, ConnectionRef } from "../gen/latchkey/v1/connection_pb.ts";
import type { Credentials } from "../gen/latchkey/v1/credentials_pb.ts";
import type { Integration, IntegrationSecrets } from "../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";
import type { Store } from "../store/contract.ts";
import { follow } from "../store/follow.ts";
import { partsOf } from "../store/keys.ts";
import { connectionTouchKey } from "./collections.ts";
import type { Connections } from "./connections.ts";
import type { Integrations } from "./integrations.ts";
import type { Providers } from "./providers.ts";
import { type Touched, type Touches, touchedBy } from "./touches.ts";

/** A connection with all that it takes to act on it, and credentials that are good now. */
export interface LiveConnection {
  readonly connection: Connection;
  readonly integration: Integration;
  /** Of the customer's app at the provider: some credentials sign with them. */
  readonly secrets: IntegrationSecrets | undefined;
  readonly provider: Provider;
  readonly credentials: Credentials;
}

export interface Live {
  get(ref: ConnectionRef, options?: { readonly forceRefresh: boolean }): Promise<LiveConnection>;
  /** What memory has of it, if that is good: without a promise. */
  peek(ref: ConnectionRef): LiveConnection | undefined;
  close(): void;
}

interface LiveOptions {
  readonly store: Store;
  readonly connections: Connections;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly touches: Touches;
  readonly world: World;
}

/** What memory has of a connection. */
interface Held {
  readonly live: LiveConnection;
  /** Until when its credentials are good. */
  readonly goodUntil: number;
  readonly touched: Touched;
}

const maxLive = 10_000;
const retryAfterSeconds = 60;

/** The one place that hands out connections for use. What it holds in memory is let go when the store changes. */
export async function openLive(options: LiveOptions): Promise<Live> {
  const { store, connections, integrations, providers, touches, world } = options;
  const hits = world.metrics.liveLookups.series({ result: "hit" });
  const misses = world.metrics.liveLookups.series({ result: "miss" });
  const cache = new LRUCache<string, Held, ConnectionRef>({
    max: maxLive,
    // Callers that wait while an entry is let go still get what they asked for; the next one reads anew.
    ignoreFetchAbort: true,
    fetchMethod: (_key, _stale, { context: ref }) => load(ref),
  });

  const watch = await follow({
    store,
    world,
    // Whatever changed while nobody could say what: everything is read anew when it is asked for.
    read: async () => () => cache.clear(),
    onCommit({ changes }) {
      for (const { key } of changes) {
        const [space, environment, integration, id] = partsOf(key);
        if (space === "connection" || space === "credentials") cache.delete(`${environment}\0${integration}\0${id}`);
        // A whole integration moved, or a provider: rare, and every connection of it has to be read anew.
        if (space === "integration" || space === "integration-secrets" || space === "provider") cache.clear();
      }
    },
  });

  async function load(ref: ConnectionRef): Promise<Held> {
    const at = { environment: ref.environment, key: ref.integration };
    const [{ value: connection }, { value: integration }, secrets, credentials] = await Promise.all([
      connections.get(ref),
      integrations.get(at),
      integrations.secretsOf(at),
      connections.credentialsOf(ref),
    ]);
    if (credentials === undefined) {
      // Deleted between one look and the other: then it is not there. Anything else is a defect.
      await connections.get(ref);
      throw new Error("a connection has no credentials");
    }
    return {
      live: { connection, integration, secrets, provider: providers.find(connection.provider), credentials },
      goodUntil: goodUntil(credentials),
      touched: touchedBy(connectionTouchKey(ref.environment, ref.integration, ref.id)),
    };
  }

  const keyFor = ({ environment, integration, id }: ConnectionRef) => `${environment}\0${integration}\0${id}`;

  return {
    peek(ref) {
      const held = cache.get(keyFor(ref));
      if (held === undefined || held.goodUntil <= world.now()) return undefined;
      hits.add();
      touches.touch(held.touched);
      return held.live;
    },
    async get(ref, { forceRefresh } = { forceRefresh: false }) {
      const key = keyFor(ref);
      const known = cache.get(key);
      (known === undefined ? misses : hits).add();
      const held = known ?? (await cache.fetch(key, { context: ref }));
      if (held === undefined) throw new Error("a connection was loaded and not returned");
      requireGood(held, { now: world.now(), forceRefresh });
      touches.touch(held.touched);
      return held.live;
    },
    close: () => watch.close(),
  };
}

function goodUntil(credentials: Credentials): number {
  if (isToBeginWith(credentials)) return 0;
  const expiresAt = credentialsExpireAt(credentials);
  return expiresAt === undefined ? Number.POSITIVE_INFINITY : timestampMs(expiresAt);
}

interface Freshness {
  readonly now: number;
  readonly forceRefresh: boolean;
}

function requireGood({ live, goodUntil: until }: Held, { now, forceRefresh }: Freshness): void {
  const { connection, credentials } = live;
  if (until > now && !(forceRefresh && canRenew(credentials))) return;
  const id = connection.ref?.id ?? "";
  if (canRenew(credentials)) {
    const message = `the credentials of "${id}" are due, and this version does not renew any`;
    throw new Fault("refresh_unavailable", message, { retryAfterSeconds });
  }
  throw new Fault("reauthorization_required", `the credentials of "${id}" have expired and nothing renews them`);
}

/** Imported with a refresh token alone: the access token is still to be had. */
const isToBeginWith = ({ kind }: Credentials): boolean => kind.case === "oauth2" && kind.value.accessToken === "";

function canRenew({ kind }: Credentials): boolean {
  if (kind.case === "oauth2" || kind.case === "twoStep") return kind.value.refreshToken !== "";
  return kind.case === "oauth2Client" || kind.case === "app" || kind.case === "jwt" || kind.case === "signature";
}
