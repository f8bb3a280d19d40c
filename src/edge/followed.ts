import { create } from "@bufbuild/protobuf";
import { Fault } from "../base/fault.ts";
import type { World } from "../base/world.ts";
import type { Live } from "../broker/credentials/live-connections.ts";
import type { Quotas } from "../broker/quotas/quotas.ts";
import type { Authentication } from "../broker/setup/authentication.ts";
import type { BrokersConfig } from "../config/edge.ts";
import {
  type EdgeFault,
  EdgeKeyRefSchema,
  WantedConnectionSchema,
  WantedKeySchema,
} from "../gen/latchkey/v1/edge_pb.ts";
import { type BrokerLink, type HeldVersions, openBrokerLink } from "./broker-link.ts";
import { createConnectionMemory } from "./connection-memory.ts";
import { createEdgeAccess } from "./edge-access.ts";
import { createEdgeLive } from "./edge-live.ts";
import { createEdgeQuotas } from "./edge-quotas.ts";
import type { FromBroker } from "./follow-stream.ts";
import type { HeldConnection } from "./held-connection.ts";
import { createKeyMemory } from "./key-memory.ts";
import { createQuestions } from "./questions.ts";
import { createUses } from "./uses.ts";

/** What the proxy needs of a store, from a broker and from memory. */
export interface Followed {
  readonly access: Pick<Authentication, "authenticate" | "isCurrent">;
  readonly live: Omit<Live, "close">;
  readonly quotas: Omit<Quotas, "close">;
  /** Resolves once a broker has brought everything up to date for the first time. */
  readonly inSync: Promise<void>;
  /** Since when no broker can be reached; undefined while there is one. */
  away(): { readonly sinceMs: number; readonly isTooLong: boolean; readonly reason: string | undefined } | undefined;
  close(): void;
}

/** The answers to the three kinds of questions. */
type Answer = HeldConnection | Fault | EdgeFault | undefined;

/** Follows a broker, and keeps in memory what it says. */
export function openFollowed(config: BrokersConfig, world: World): Followed {
  const { metrics, log } = world;
  const inSync = Promise.withResolvers<void>();
  let environment: string | undefined;
  let forgetting: NodeJS.Timeout | undefined;
  let offered: HeldVersions | undefined;
  const link = (): BrokerLink => opened;
  const questions = createQuestions<Answer>({ link, world });
  const uses = createUses(link);
  const connections = createConnectionMemory({
    maxConnections: config.maxConnections,
    onEvict: (value) => void link().send({ case: "dropConnection", value }),
    world,
  });
  const keys = createKeyMemory({
    onEvict: (digest) => void link().send({ case: "dropKey", value: create(EdgeKeyRefSchema, { digest }) }),
    world,
  });

  function forgetAll(): void {
    connections.clear();
    keys.clear();
  }

  function received(message: FromBroker): void {
    switch (message.case) {
      case "provider":
        metrics.edgeChanges.inc({ kind: "provider" });
        connections.applyProvider(message.value);
        return;
      case "integration":
        metrics.edgeChanges.inc({ kind: "integration" });
        connections.applyIntegration(message.value);
        return;
      case "connection": {
        const { requestId } = message.value;
        if (requestId === 0n) metrics.edgeChanges.inc({ kind: "connection" });
        questions.answer(requestId, connections.apply(message.value));
        return;
      }
      case "key":
        if (message.value.requestId === 0n) metrics.edgeChanges.inc({ kind: "key" });
        keys.apply(message.value);
        questions.answer(message.value.requestId, undefined);
        return;
      case "pass":
        questions.answer(message.value.requestId, message.value.fault);
        return;
      case "inSync":
        inSync.resolve();
        return;
    }
  }

  /** Has the new broker follow what came from the one before after the greeting was written. */
  function followTheRest({ connections: offeredConnections, keys: offeredKeys }: HeldVersions): void {
    const knownRefs = new Set(offeredConnections.map(({ ref }) => `${ref?.integration}\0${ref?.id}`));
    for (const { ref } of connections.versions().connections) {
      if (knownRefs.has(`${ref?.integration}\0${ref?.id}`)) continue;
      link().send({ case: "wantConnection", value: create(WantedConnectionSchema, { ...(ref && { ref }) }) });
    }
    const knownKeys = new Set(offeredKeys.map(({ digest }) => Buffer.from(digest).toString("hex")));
    for (const { digest } of keys.versions()) {
      if (knownKeys.has(Buffer.from(digest).toString("hex"))) continue;
      link().send({ case: "wantKey", value: create(WantedKeySchema, { digest }) });
    }
  }

  const opened: BrokerLink = openBrokerLink({
    urls: config.urls,
    tls: config.tls,
    key: config.key,
    environment: config.environment,
    held: () => {
      offered = { ...connections.versions(), keys: keys.versions() };
      return offered;
    },
    onWelcome(welcome) {
      clearTimeout(forgetting);
      if (environment !== undefined && environment !== welcome.environment) {
        log.warn("the brokers' environment has changed; everything in memory is forgotten");
        forgetAll();
      }
      environment = welcome.environment;
      connections.setAhead(welcome.aheadMs);
      connections.limit(welcome.maxConnections);
      if (offered !== undefined) followTheRest(offered);
      offered = undefined;
      questions.resend();
    },
    onMessage: received,
    onAway() {
      questions.shorten();
      const sinceMs = opened.awaySinceMs() ?? world.now();
      forgetting = setTimeout(
        () => {
          log.error("brokers were away for too long; everything in memory is forgotten", {
            away_since: new Date(sinceMs).toISOString(),
          });
          forgetAll();
        },
        Math.max(0, sinceMs + config.maxAwayMs - world.now()),
      );
      forgetting.unref();
    },
    world,
  });

  return {
    access: createEdgeAccess({ keys, questions, uses, world }),
    live: createEdgeLive({
      memory: connections,
      questions: { ask: (question) => questions.ask(question) as Promise<HeldConnection | Fault> },
      uses,
      world,
    }),
    quotas: createEdgeQuotas({
      questions: { ask: (question) => questions.ask(question) as Promise<EdgeFault | undefined> },
      link,
      world,
    }),
    inSync: inSync.promise,
    away() {
      const sinceMs = opened.awaySinceMs();
      if (sinceMs === undefined) return undefined;
      return { sinceMs, isTooLong: world.now() - sinceMs >= config.maxAwayMs, reason: opened.lastTrouble() };
    },
    close() {
      uses.flush();
      uses.close();
      clearTimeout(forgetting);
      questions.close();
      opened.close();
    },
  };
}
