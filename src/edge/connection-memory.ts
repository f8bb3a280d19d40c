import { create } from "@bufbuild/protobuf";
import { LRUCache } from "lru-cache";
import { Fault } from "../base/fault.ts";
import type { World } from "../base/world.ts";
import type { ConnectionRef } from "../gen/latchkey/v1/connection_pb.ts";
import {
  type EdgeConnection,
  type EdgeHello,
  type EdgeIntegration,
  type EdgeProvider,
  HeldConnectionSchema,
  HeldResourceSchema,
} from "../gen/latchkey/v1/edge_pb.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";
import { faultOf } from "./broker-fault.ts";
import { HeldConnection, type HeldIntegration, type HeldParts } from "./held-connection.ts";

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

/** The connections that callers of this process use. In memory only, never on disk. */
export class ConnectionMemory {
  readonly #options: ConnectionMemoryOptions;
  readonly #providers = new Map<string, HeldProvider>();
  readonly #integrations = new Map<string, HeldIntegration>();
  readonly #faults = new LRUCache<string, Fault>({ max: maxFaults, ttl: faultMs });
  #connections: LRUCache<string, HeldConnection>;
  #aheadMs = 0;

  constructor(options: ConnectionMemoryOptions) {
    this.#options = options;
    this.#connections = this.#cacheOf(options.maxConnections);
  }

  /** Returns a connection, valid or not; the least recently asked for is forgotten first. */
  peek(ref: ConnectionRef): HeldConnection | undefined {
    return this.#connections.get(keyOf(ref));
  }

  /** Returns why a connection could not be used a moment ago. */
  faultOf(ref: ConnectionRef): Fault | undefined {
    return this.#faults.get(keyOf(ref));
  }

  applyProvider({ name, version, provider }: EdgeProvider): void {
    if (provider === undefined) this.#providers.delete(name);
    else this.#providers.set(name, { version, provider });
    this.#remake((held) => held.integration.provider === name);
  }

  applyIntegration({ key, version, integration, secrets }: EdgeIntegration): void {
    if (integration === undefined) this.#integrations.delete(key);
    else this.#integrations.set(key, { version, integration, secrets });
    this.#remake((held) => held.parts.ref.integration === key);
  }

  /** Returns the connection, or why there is none. */
  apply({ requestId, ref, version, state }: EdgeConnection): HeldConnection | Fault {
    if (ref === undefined) return unreadable("without a name");
    const key = keyOf(ref);
    // The broker had not read yet that the connection was forgotten, and tells about it only this once.
    if (requestId === 0n && !this.#connections.has(key)) {
      this.#faults.delete(key);
      return unreadable("not asked for");
    }
    if (state.case === "fault") {
      const fault = faultOf(state.value);
      return requestId !== 0n && this.#isKeptAfter(fault, key) ? fault : this.#forget(ref, fault);
    }
    const { connection, credentials } = state.value ?? {};
    const setup = this.#setupOf(ref);
    if (state.case !== "live" || connection === undefined || credentials === undefined || setup === undefined) {
      return this.#forget(ref, unreadable("incomplete"));
    }
    const parts = { ref, version, state: state.value, connection, credentials, ...setup, aheadMs: this.#aheadMs };
    const held = new HeldConnection(parts);
    this.#faults.delete(key);
    this.#connections.set(key, held);
    this.#showCount();
    return held;
  }

  /** Sets the most connections that the broker lets this process follow. */
  limit(max: number): void {
    const { maxConnections } = this.#options;
    const size = max === 0 ? maxConnections : Math.min(max, maxConnections);
    if (size === this.#connections.max) return;
    const before = this.#connections;
    this.#connections = this.#cacheOf(size);
    // The most recently used come first, and are kept.
    for (const [key, held] of [...before.entries()].slice(0, size).reverse()) {
      this.#connections.set(key, new HeldConnection(held.parts));
    }
    before.clear();
    this.#showCount();
  }

  /** Sets how far the broker's clock is ahead of ours: what is held ends by it as well. */
  setAhead(ms: number): void {
    if (ms === this.#aheadMs) return;
    this.#aheadMs = ms;
    for (const [key, held] of [...this.#connections.entries()].reverse()) {
      this.#connections.set(key, new HeldConnection({ ...held.parts, aheadMs: ms }));
    }
  }

  clear(): void {
    this.#connections.clear();
    this.#integrations.clear();
    this.#providers.clear();
    this.#faults.clear();
    this.#showCount();
  }

  versions(): Pick<EdgeHello, "connections" | "integrations" | "providers"> {
    return {
      connections: [...this.#connections.values()].map(({ parts: { ref, version } }) =>
        create(HeldConnectionSchema, { ref, version }),
      ),
      integrations: versionsOf(this.#integrations),
      providers: versionsOf(this.#providers),
    };
  }

  /** A request for other credentials, or for a further token, may fail while the ones that we have can be used. */
  #isKeptAfter(fault: Fault, key: string): boolean {
    const held = this.#connections.peek(key);
    return held !== undefined && held.validUntil > this.#options.world.now() && !fault.code.startsWith("unknown_");
  }

  #cacheOf(max: number): LRUCache<string, HeldConnection> {
    return new LRUCache({
      max,
      dispose: (held, _key, why) => {
        held.leave();
        if (why === "evict") this.#options.onEvict(held.parts.ref);
      },
    });
  }

  #setupOf(ref: ConnectionRef): Pick<HeldParts, "integration" | "provider"> | undefined {
    const integration = this.#integrations.get(ref.integration);
    const provider = integration && this.#providers.get(integration.integration.provider)?.provider;
    return integration === undefined || provider === undefined ? undefined : { integration, provider };
  }

  /** Makes the connections of an integration or a provider again, with what has changed. */
  #remake(concerns: (held: HeldConnection) => boolean): void {
    for (const [key, held] of [...this.#connections.entries()]) {
      if (!concerns(held)) continue;
      const setup = this.#setupOf(held.parts.ref);
      if (setup === undefined) this.#connections.delete(key);
      else this.#connections.set(key, new HeldConnection({ ...held.parts, ...setup }));
    }
    this.#showCount();
  }

  #forget(ref: ConnectionRef, fault: Fault): Fault {
    const key = keyOf(ref);
    this.#connections.delete(key);
    this.#faults.set(key, fault);
    this.#showCount();
    return fault;
  }

  #showCount(): void {
    this.#options.world.metrics.edgeHeld.set({ kind: "connection" }, this.#connections.size);
  }
}

const versionsOf = (held: ReadonlyMap<string, { readonly version: Uint8Array }>) =>
  [...held].map(([name, { version }]) => create(HeldResourceSchema, { name, version }));

/** All connections are of one environment. No name contains a NUL. */
const keyOf = ({ integration, id }: ConnectionRef): string => `${integration}\0${id}`;

/** Never happens with a broker that keeps the contract. */
const unreadable = (what: string): Fault =>
  new Fault("brokers_unavailable", `the broker's answer is not usable: the connection is ${what}`);
