import { create } from "@bufbuild/protobuf";
import type { Fault } from "../base/fault.ts";
import type { World } from "../base/world.ts";
import type { Live } from "../broker/credentials/live-connections.ts";
import type { PolicySets } from "../broker/policies/policies-in-force.ts";
import type { Quotas } from "../broker/quotas/quotas.ts";
import type { BrokersConfig } from "../config/edges/edge-config.ts";
import type { ConnectionRef } from "../gen/latchkey/v1/connection_pb.ts";
import {
  type DrawnRequests,
  type EdgeFault,
  EdgeKeyRefSchema,
  type HostCertificate,
  ScopesNoticeSchema,
  WantedConnectionSchema,
  WantedKeySchema,
  WantedRoutesSchema,
} from "../gen/latchkey/v1/edge_pb.ts";
import { type AuthorityMemory, createAuthorityMemory } from "./authority-memory.ts";
import { BrokerLink, type LinkWelcome } from "./broker-link.ts";
import { ConnectionMemory } from "./connection-memory.ts";
import { createEdgeAccess, type EdgeKeyAccess } from "./edge-access.ts";
import { createEdgeBudgets } from "./edge-budgets.ts";
import { certificateIn, createEdgeCertificates } from "./edge-certificates.ts";
import { type BrokerSilence, createEdgeLive } from "./edge-live.ts";
import { createEdgeQuotas } from "./edge-quotas.ts";
import type { FromBroker } from "./follow-stream.ts";
import type { HeldConnection } from "./held-connection.ts";
import type { HeldVersions } from "./held-parts.ts";
import { createKeyMemory, type KeyMemory } from "./key-memory.ts";
import { createPolicyMemory, type PolicyMemory } from "./policy-memory.ts";
import { createQuestions, type Question, type Questions } from "./questions.ts";
import { createRouteMemory, type RouteMemory } from "./route-memory.ts";
import { createUses } from "./uses.ts";

/** What the proxy needs of a store, from a broker and from memory. */
export interface Followed {
  readonly access: EdgeKeyAccess;
  readonly live: Omit<Live, "close">;
  readonly quotas: Omit<Quotas, "close">;
  /** Returns the environment that brokers have named; undefined: no broker has answered yet. */
  environment(): string | undefined;
  readonly policies: PolicySets;
  readonly routes: RouteMemory;
  readonly authorities: AuthorityMemory;
  /** Server certificates of the forward proxy. */
  readonly certificates: ReturnType<typeof createEdgeCertificates>;
  /** Tells brokers that an MCP server wants further scopes. */
  noteLackingScopes(ref: ConnectionRef, scopes: readonly string[]): void;
  /** Resolves once a broker has brought everything up to date for the first time. */
  readonly inSync: Promise<void>;
  /** Since when no broker can be reached; undefined while there is one. */
  away(): { readonly sinceMs: number; readonly isTooLong: boolean; readonly reason: string | undefined } | undefined;
  /** Connects again with the credentials as they are now. */
  renew(): void;
  close(): void;
}

/** The answers to the kinds of questions. */
type Answer = HeldConnection | Fault | EdgeFault | HostCertificate | DrawnRequests | undefined;

interface FollowedOptions {
  readonly hasForwardProxy?: boolean;
}

/** Follows a broker, and keeps in memory what it says. */
export function openFollowed(
  config: BrokersConfig,
  world: World,
  { hasForwardProxy = false }: FollowedOptions = {},
): Followed {
  const link = (): BrokerLink => follower.link;
  const questions = createQuestions<Answer>({ link, servesRoutes: () => follower.servesRoutes, world });
  const ask =
    <A extends Answer>() =>
    (question: Question) =>
      questions.ask(question) as Promise<A>;
  const uses = createUses(link);
  const connections = new ConnectionMemory({
    maxConnections: config.maxConnections,
    onEvict: (value) => void link().send({ case: "dropConnection", value }),
    world,
  });
  const keys = createKeyMemory({
    onEvict: (digest) => void link().send({ case: "dropKey", value: create(EdgeKeyRefSchema, { digest }) }),
    budgets: createEdgeBudgets({ ask: ask<DrawnRequests>() }),
    world,
  });
  const policies = createPolicyMemory(world);
  const authorities = createAuthorityMemory(world);
  const silence: BrokerSilence = {
    isAway: () => link().awaySinceMs() !== undefined,
    // Not left to the timer that forgets everything: a process that was stopped meanwhile may serve requests before it.
    isTooLong: () => link().silentMs() >= config.maxAwayMs,
  };
  const routes = createRouteMemory({
    questions: { ask: ask<Fault | undefined>() },
    onEvict: (value) => void (follower.servesRoutes && link().send({ case: "dropRoutes", value })),
    silence,
    world,
  });
  const memory = { connections, keys, policies, routes, authorities };
  const follower = new BrokerFollower({ config, hasForwardProxy, ...memory, questions, world });
  return {
    access: createEdgeAccess({
      keys,
      questions: { ask: ask<EdgeFault | undefined>() },
      uses,
      silence,
      world,
    }),
    live: createEdgeLive({
      memory: connections,
      questions: { ask: ask<HeldConnection | Fault>() },
      uses,
      silence,
      world,
    }),
    quotas: createEdgeQuotas({
      questions: { ask: ask<EdgeFault | undefined>() },
      link,
      world,
    }),
    environment: () => follower.environment(),
    policies,
    routes,
    authorities,
    certificates: createEdgeCertificates({ authorities, questions: { ask: ask<HostCertificate | Fault>() }, world }),
    noteLackingScopes(ref, scopes) {
      const value = create(ScopesNoticeSchema, { ref, scopes: [...scopes] });
      if (scopes.length > 0 && follower.servesRoutes) link().send({ case: "scopesNotice", value });
    },
    inSync: follower.inSync.promise,
    away() {
      const sinceMs = link().awaySinceMs();
      if (sinceMs === undefined) return undefined;
      return { sinceMs, isTooLong: link().silentMs() >= config.maxAwayMs, reason: link().lastTrouble() };
    },
    renew: () => link().renew(),
    close() {
      uses.flush();
      uses.close();
      questions.close();
      follower.close();
    },
  };
}

interface BrokerFollowerOptions {
  readonly config: BrokersConfig;
  readonly hasForwardProxy: boolean;
  readonly connections: ConnectionMemory;
  readonly keys: KeyMemory;
  readonly policies: PolicyMemory;
  readonly routes: RouteMemory;
  readonly authorities: AuthorityMemory;
  readonly questions: Questions<Answer>;
  readonly world: World;
}

/** Applies what a broker says, and forgets everything when no broker was there for too long. */
class BrokerFollower {
  readonly inSync = Promise.withResolvers<void>();
  readonly link: BrokerLink;
  readonly #options: BrokerFollowerOptions;
  /** Whether the broker answers questions of addresses and certificates. */
  servesRoutes = false;
  #environment: string | undefined;
  #forgetting: NodeJS.Timeout | undefined;

  constructor(options: BrokerFollowerOptions) {
    this.#options = options;
    const { config, world } = options;
    this.link = new BrokerLink({
      urls: config.urls,
      credentials: config.credentials,
      environment: config.environment,
      held: () => this.#offer(),
      policiesVersion: () => options.policies.version(),
      hasForwardProxy: options.hasForwardProxy,
      onWelcome: (welcome) => this.#welcomed(welcome),
      onMessage: (message) => this.#received(message),
      onClock: (aheadMs) => options.connections.setAhead(aheadMs),
      onAway: () => this.#away(),
      world,
    });
  }

  environment(): string | undefined {
    return this.#environment;
  }

  close(): void {
    clearTimeout(this.#forgetting);
    this.link.close();
  }

  #offer(): HeldVersions {
    const { connections, keys } = this.#options;
    return { ...connections.versions(), keys: keys.versions() };
  }

  #forgetAll(): void {
    this.#options.connections.clear();
    this.#options.keys.clear();
    this.#options.policies.clear();
    this.#options.routes.clear();
  }

  #welcomed(welcome: LinkWelcome): void {
    const { connections, questions, routes, world } = this.#options;
    clearTimeout(this.#forgetting);
    if (this.#environment !== undefined && this.#environment !== welcome.environment) {
      world.log.warn("the brokers' environment has changed; everything in memory is forgotten");
      this.#forgetAll();
    }
    this.#environment = welcome.environment;
    this.servesRoutes = welcome.servesRoutes;
    // An older broker would not say what changes.
    if (!welcome.servesRoutes) routes.clear();
    connections.limit(welcome.maxConnections);
    this.#followTheRest(welcome.offered);
    questions.resend();
  }

  #away(): void {
    const { config, questions, world } = this.#options;
    questions.shorten();
    const sinceMs = this.link.awaySinceMs() ?? world.now();
    const forget = () => {
      const away_since = new Date(sinceMs).toISOString();
      world.log.error("brokers were away for too long; everything in memory is forgotten", { away_since });
      this.#forgetAll();
    };
    this.#forgetting = setTimeout(forget, Math.max(0, config.maxAwayMs - this.link.silentMs())).unref();
  }

  #received(message: FromBroker): void {
    const { connections, keys, policies, routes, authorities, questions } = this.#options;
    switch (message.case) {
      case "policies":
        this.#countChange("policies");
        policies.apply(message.value);
        return;
      case "provider":
        this.#countChange("provider");
        connections.applyProvider(message.value);
        return;
      case "integration":
        this.#countChange("integration");
        connections.applyIntegration(message.value);
        return;
      case "connection": {
        const { requestId } = message.value;
        if (requestId === 0n) this.#countChange("connection");
        questions.answer(requestId, connections.apply(message.value));
        return;
      }
      case "key":
        if (message.value.requestId === 0n) this.#countChange("key");
        if (message.value.fault === undefined) keys.apply(message.value);
        questions.answer(message.value.requestId, message.value.fault);
        return;
      case "pass":
        questions.answer(message.value.requestId, message.value.fault);
        return;
      case "drawn":
        questions.answer(message.value.requestId, message.value);
        return;
      case "routes":
        if (message.value.requestId === 0n) this.#countChange("routes");
        questions.answer(message.value.requestId, routes.apply(message.value));
        return;
      case "authorities":
        this.#countChange("authorities");
        authorities.apply(message.value);
        return;
      case "certificate":
        questions.answer(message.value.requestId, certificateIn(message.value));
        return;
      case "inSync":
        policies.settle();
        this.inSync.resolve();
        return;
    }
  }

  #countChange(kind: string): void {
    this.#options.world.metrics.edgeChanges.inc({ kind });
  }

  /** Has the new broker follow what came from the one before after the greeting was written, and what it did not read. */
  #followTheRest(offered: readonly HeldVersions[]): void {
    const { connections, keys, routes } = this.#options;
    const offeredRefs = new Set(
      offered.flatMap((part) => part.connections.map(({ ref }) => `${ref?.integration}\0${ref?.id}`)),
    );
    for (const { ref } of connections.versions().connections) {
      if (ref === undefined || offeredRefs.has(`${ref.integration}\0${ref.id}`)) continue;
      this.link.send({ case: "wantConnection", value: create(WantedConnectionSchema, { ref }) });
    }
    const offeredKeys = new Set(
      offered.flatMap((part) => part.keys.map(({ digest }) => Buffer.from(digest).toString("hex"))),
    );
    for (const { digest } of keys.versions()) {
      if (offeredKeys.has(Buffer.from(digest).toString("hex"))) continue;
      this.link.send({ case: "wantKey", value: create(WantedKeySchema, { digest }) });
    }
    if (!this.servesRoutes) return;
    for (const subject of routes.subjects()) {
      this.link.send({ case: "wantRoutes", value: create(WantedRoutesSchema, { subject }) });
    }
  }
}
