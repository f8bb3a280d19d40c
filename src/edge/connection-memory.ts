import { LRUCache } from "lru-cache";
import { Fault, type FaultCode, faults } from "../base/fault.ts";
import type { World } from "../base/world.ts";
import type { ConnectionRef } from "../gen/latchkey/v1/connection_pb.ts";
import type {
  EdgeConnection,
  EdgeFault,
  EdgeIntegration,
  EdgeProvider,
  HeldConnection as HeldConnectionVersion,
  HeldResource,
} from "../gen/latchkey/v1/edge_pb.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";
import { HeldConnection, type HeldIntegration } from "./held-connection.ts";

/** The connections that callers of this process use. In memory only, never on disk. */
export interface ConnectionMemory {
  /** Returns a connection, valid or not; the least recently asked for is forgotten first. */
  peek(ref: ConnectionRef): HeldConnection | undefined;
  /** Returns why a connection could not be used a moment ago. */
  faultOf(ref: ConnectionRef): Fault | undefined;
  applyProvider(message: EdgeProvider): void;
  applyIntegration(message: EdgeIntegration): void;
  /** Returns the connection, or why there is none. */
  apply(message: EdgeConnection): HeldConnection | Fault;
  /** Sets the most connections that the broker lets this process follow. */
  limit(max: number): void;
  /** Sets how far the broker's clock is ahead of ours. */
  setAhead(ms: number): void;
  clear(): void;
  count(): number;
  versions(): {
    readonly connections: HeldConnectionVersion[];
    readonly integrations: HeldResource[];
    readonly providers: HeldResource[];
  };
}

interface ConnectionMemoryOptions {
  readonly maxConnections: number;
  /** A connection was forgotten for another one: the broker need not tell about it any more. */
  readonly onEvict: (ref: ConnectionRef) => void;
  readonly world: World;
}

/** For so long, a connection that could not be used is not asked for again. */
const faultMs = 1_000;
const maxFaults = 1_000;

interface HeldProvider {
  readonly version: Uint8Array;
  readonly provider: Provider;
}

export function createConnectionMemory(options: ConnectionMemoryOptions): ConnectionMemory {
  const { maxConnections, onEvict, world } = options;
  const { metrics } = world;
  const providers = new Map<string, HeldProvider>();
  const integrations = new Map<string, HeldIntegration>();
  const faultsOf = new LRUCache<string, Fault>({ max: maxFaults, ttl: faultMs });
  let aheadMs = 0;
  let connections = cacheOf(maxConnections);

  function cacheOf(max: number): LRUCache<string, HeldConnection> {
    return new LRUCache({
      max,
      dispose(held, _key, why) {
        held.leave();
        if (why === "evict") onEvict(held.parts.ref);
      },
    });
  }

  const showCount = () => metrics.edgeHeld.set({ kind: "connection" }, connections.size);

  /** Makes the connections of an integration or a provider again, with what has changed. */
  function remake(concerns: (held: HeldConnection) => boolean): void {
    for (const [key, held] of [...connections.entries()]) {
      if (!concerns(held)) continue;
      const integration = integrations.get(held.parts.ref.integration);
      const provider = integration && providers.get(integration.integration.provider)?.provider;
      if (integration === undefined || provider === undefined) connections.delete(key);
      else connections.set(key, new HeldConnection({ ...held.parts, integration, provider }));
    }
    showCount();
  }

  function forget(ref: ConnectionRef, fault: Fault): Fault {
    const key = keyOf(ref);
    connections.delete(key);
    faultsOf.set(key, fault);
    showCount();
    return fault;
  }

  return {
    peek: (ref) => connections.get(keyOf(ref)),
    faultOf: (ref) => faultsOf.get(keyOf(ref)),
    applyProvider({ name, version, provider }) {
      if (provider === undefined) providers.delete(name);
      else providers.set(name, { version, provider });
      remake((held) => held.integration.provider === name);
    },
    applyIntegration({ key, version, integration, secrets }) {
      if (integration === undefined) integrations.delete(key);
      else integrations.set(key, { version, integration, secrets });
      remake((held) => held.parts.ref.integration === key);
    },
    apply({ requestId, ref, version, state }) {
      if (ref === undefined) return unreadable("without a name");
      // The broker had not read yet that the connection was forgotten, and tells about it only this once.
      if (requestId === 0n && !connections.has(keyOf(ref))) {
        faultsOf.delete(keyOf(ref));
        return unreadable("not asked for");
      }
      if (state.case !== "live") return forget(ref, state.case === "fault" ? faultOf(state.value) : unreadable("empty"));
      const { connection, credentials } = state.value;
      const integration = integrations.get(ref.integration);
      const provider = integration && providers.get(integration.integration.provider)?.provider;
      if (connection === undefined || credentials === undefined || integration === undefined || provider === undefined) {
        return forget(ref, unreadable("incomplete"));
      }
      const key = keyOf(ref);
      const parts = { ref, version, state: state.value, connection, credentials, integration, provider, aheadMs };
      const held = new HeldConnection(parts);
      faultsOf.delete(key);
      connections.set(key, held);
      showCount();
      return held;
    },
    limit(max) {
      const size = max === 0 ? maxConnections : Math.min(max, maxConnections);
      if (size === connections.max) return;
      const before = connections;
      connections = cacheOf(size);
      // The most recently used come first, and are kept.
      for (const [key, held] of [...before.entries()].slice(0, size).reverse()) {
        connections.set(key, new HeldConnection(held.parts));
      }
      before.clear();
      showCount();
    },
    setAhead(ms) {
      aheadMs = ms;
    },
    clear() {
      connections.clear();
      integrations.clear();
      providers.clear();
      faultsOf.clear();
      showCount();
    },
    count: () => connections.size,
    versions: () => ({
      connections: [...connections.values()].map(
        ({ parts: { ref, version } }): HeldConnectionVersion => ({
          $typeName: "latchkey.v1.HeldConnection",
          ref,
          version,
        }),
      ),
      integrations: [...integrations].map(([name, { version }]) => resource(name, version)),
      providers: [...providers].map(([name, { version }]) => resource(name, version)),
    }),
  };
}

/** All connections are of one environment. No name contains a NUL. */
const keyOf = ({ integration, id }: ConnectionRef): string => `${integration}\0${id}`;

const resource = (name: string, version: Uint8Array): HeldResource => ({
  $typeName: "latchkey.v1.HeldResource",
  name,
  version,
});

/** Never happens with a broker that keeps the contract. */
const unreadable = (what: string): Fault =>
  new Fault("brokers_unavailable", `the broker's answer is not usable: the connection is ${what}`);

/** A newer broker may know codes that we do not. */
export function faultOf({ code, message, hint, detailsJson }: EdgeFault): Fault {
  const known = Object.hasOwn(faults, code) ? (code as FaultCode) : "connection_unusable";
  return Fault.withoutStack(known, message, { ...detailsIn(detailsJson), ...(hint !== "" && { hint }) });
}

function detailsIn(json: string): ConstructorParameters<typeof Fault>[2] {
  if (json === "") return {};
  try {
    const { retryAfterSeconds, metadata } = JSON.parse(json) as Record<string, unknown>;
    return {
      ...(typeof retryAfterSeconds === "number" && { retryAfterSeconds }),
      ...(isTexts(metadata) && { metadata }),
    };
  } catch {
    // The fault is right without its details.
    return {};
  }
}

const isTexts = (value: unknown): value is Record<string, string> =>
  typeof value === "object" && value !== null && Object.values(value).every((one) => typeof one === "string");
