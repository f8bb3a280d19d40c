import { durationMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../base/world.ts";
import type { QuotaLimit, QuotaRules } from "../../gen/latchkey/v1/provider_pb.ts";
import type { LiveConnection } from "../credentials/live-connections.ts";
import type { KeptQuota, KeptQuotas } from "./kept-quotas.ts";
import { holdMsOf, type QuotaAnswer } from "./learned-hold.ts";
import type { QuotaPriority } from "./quota-queue.ts";

/** Keeps the limits that providers' descriptions name, together with the other replicas. */
export interface Quotas {
  /**
   * Returns undefined if the request may be sent now, or a promise that resolves when it may. Rejects or throws with
   * `too_many_requests` if that would take longer than the caller's patience.
   */
  enter(live: LiveConnection, request: QuotaRequest): Promise<void> | undefined;
  /** Reads the provider's own figures from a response. */
  noteResponse(live: LiveConnection, path: string, answer: QuotaAnswer): void;
  close(): Promise<void>;
}

export interface QuotaRequest {
  readonly path: string;
  readonly priority: QuotaPriority;
  readonly patienceMs: number;
}

interface QuotasOptions {
  readonly kept: KeptQuotas;
  readonly world: World;
}

export function createQuotas({ kept, world }: QuotasOptions): Quotas {
  function quotasOf(live: LiveConnection, rules: QuotaRules, path: string): readonly KeptQuota[] {
    return rules.limits.flatMap((limit, i) => {
      if (!path.startsWith(limit.pathPrefix)) return [];
      const periodMs = limit.period === undefined ? 0 : durationMs(limit.period);
      return periodMs > 0 ? [kept.of(`${ownerOf(live, limit)}\0${i}`, { requests: limit.requests, periodMs })] : [];
    });
  }

  /** Returns whose requests the provider's responses count: by the description, else by its limits if they agree. */
  function learnedOwner(live: LiveConnection, { owner: told, limits }: QuotaRules): string {
    const [first] = limits;
    const agreed = limits.every(({ owner }) => owner === first?.owner) ? first?.owner : undefined;
    const owner = told || agreed || "connection";
    return ownerOf(live, limits.find((one) => one.owner === owner) ?? { owner, accountField: "" });
  }

  async function enterRest(quotas: readonly KeptQuota[], first: Promise<void>, request: QuotaRequest): Promise<void> {
    await first;
    for (const { queue } of quotas) await queue.enter(request.priority, request.patienceMs);
  }

  return {
    enter(live, request) {
      const { quota: rules } = live.provider;
      if (rules === undefined) return undefined;
      const named = quotasOf(live, rules, request.path);
      const learned = kept.learned(learnedOwner(live, rules));
      const quotas = learned === undefined ? named : [...named, learned];
      for (const [i, { queue }] of quotas.entries()) {
        const waits = queue.enter(request.priority, request.patienceMs);
        if (waits !== undefined) return enterRest(quotas.slice(i + 1), waits, request);
      }
      return undefined;
    },
    noteResponse(live, path, answer) {
      const { quota: rules } = live.provider;
      if (rules === undefined) return;
      const holdMs = holdMsOf(answer, rules, world.now());
      if (holdMs === undefined) return;
      const owner = learnedOwner(live, rules);
      // A limit of the description is held in all replicas.
      const shared = quotasOf(live, rules, path).find(({ name }) => /^\0\d+$/.test(name.slice(owner.length)));
      if (shared === undefined) kept.hold(owner, holdMs);
      else {
        shared.queue.holdUntil(performance.now() + holdMs);
        kept.exchangeSoon();
      }
    },
    close: kept.close,
  };
}

type QuotaOwner = Pick<QuotaLimit, "owner" | "accountField">;

/** Names whose requests count together. */
function ownerOf({ connection, integration }: LiveConnection, { owner, accountField }: QuotaOwner): string {
  const client = `${integration.environment}\0${integration.key}`;
  if (owner === "client") return client;
  const [, place, name = ""] = /^(metadata|connection_config)\.(.+)$/s.exec(accountField) ?? [];
  const values = place === "metadata" ? connection.metadata : connection.connectionConfig;
  const account = owner === "account" && values !== undefined && Object.hasOwn(values, name) ? values[name] : undefined;
  // An unknown account may be any: its connection alone is counted.
  return typeof account === "string" && account !== ""
    ? `${client}\0account\0${account}`
    : `${client}\0connection\0${connection.ref?.id}`;
}
