import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { RevocationTask } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { TokenRevocation_Result as Result } from "../../gen/latchkey/v1/connection_pb.ts";
import type { IntegrationSecrets } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { HeldPartition } from "../partitions/held-partition.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { Providers } from "../setup/providers.ts";
import type { RevocationFailure } from "./attempt-failure.ts";
import { allOf } from "./attempt-request.ts";
import { awayPauseMs, longestMs, refusalDelayMs } from "./attempt-schedule.ts";
import { groupOf } from "./due-revocations.ts";
import { refOf } from "./ended-revocation.ts";
import type { AttemptRevocation } from "./revocation-attempt.ts";
import type { RevocationCollections } from "./revocation-collections.ts";
import type { RevocationResults } from "./revocation-results.ts";
import type { FindGrantUse } from "./shared-grant.ts";

/** Makes one attempt for a task, and stores what came of it. */
export interface RevocationRunner {
  /** Whether the integration's provider is away, and its next attempt not due. */
  isHeld(group: string): boolean;
  /** Whether another task of the integration may begin: while its provider is away, only one at a time. */
  mayBegin(group: string): boolean;
  noteBegun(group: string): void;
  run(task: RevocationTask, under: RunContext): Promise<void>;
}

interface RunContext {
  readonly partition: HeldPartition;
  readonly signal: AbortSignal;
}

interface RunnerOptions {
  readonly collections: RevocationCollections;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly attempt: AttemptRevocation;
  readonly findGrantUse: FindGrantUse;
  readonly results: RevocationResults;
  readonly world: World;
}

/** An integration whose provider is away. */
interface AwayGroup {
  failures: number;
  untilMs: number;
  isProbing: boolean;
  last: RevocationFailure;
}

export function createRevocationRunner(options: RunnerOptions): RevocationRunner {
  const { collections, integrations, providers, attempt, findGrantUse, results, world } = options;
  const away = new Map<string, AwayGroup>();

  function isHeld(group: string): boolean {
    const found = away.get(group);
    return found !== undefined && (found.isProbing || found.untilMs > performance.now());
  }

  /**
   * Returns the client's secrets now, if the client is still the same: they may have been rotated since. A client ID of
   * another issuer is another client, and its secret is not sent to the issuer of the tokens.
   */
  async function currentSecrets({ integration, secrets }: RevocationTask): Promise<IntegrationSecrets | undefined> {
    if (integration === undefined) return secrets;
    const { environment, key } = integration;
    const found = await integrations.inUse({ environment, key }).catch((error: unknown) => {
      // The integration was deleted.
      if (error instanceof Fault) return undefined;
      throw error;
    });
    const isSame =
      found?.integration.provider === integration.provider &&
      found.integration.oauth?.clientId === integration.oauth?.clientId &&
      found.integration.oauth?.registration?.issuer === integration.oauth?.registration?.issuer;
    return isSame ? (found?.secrets ?? secrets) : secrets;
  }

  function noteAway(task: RevocationTask, failure: RevocationFailure): number {
    const group = groupOfTask(task);
    const failures = (away.get(group)?.failures ?? 0) + 1;
    const pauseMs = awayPauseMs({ failures, retryAfterMs: failure.retryAfterMs, random: Math.random() });
    away.set(group, { failures, untilMs: performance.now() + pauseMs, isProbing: false, last: failure });
    return pauseMs;
  }

  async function attempted(task: RevocationTask, provider: Provider, { partition, signal }: RunContext): Promise<void> {
    const { environment } = refOf(task);
    const stored = await collections.revocations.get(environment, task.id);
    const known = stored?.value.tokens ?? [];
    const base = { task, provider, failure: undefined, partition };
    const use = await findGrantUse(task, provider);
    if (use !== undefined) {
      await results.end(base, allOf({ tokens: known }, Result.KEPT, use).tokens);
      return;
    }
    const secrets = await currentSecrets(task);
    const { tokens, failure } = await attempt({
      task: secrets === undefined ? task : { ...task, secrets },
      provider,
      tokens: known,
      signal,
      onRefreshed: (credentials) => results.replace({ task, partition }, credentials),
    });
    if (signal.aborted) return;
    const group = groupOfTask(task);
    if (failure?.kind !== "away") away.delete(group);
    if (failure === undefined) {
      await results.end(base, tokens);
      return;
    }
    const nowMs = world.now();
    const delayMs =
      failure.kind === "away" ? noteAway(task, failure) : refusalDelayMs(task.refusals + 1, Math.random());
    const dueMs = nowMs + (delayMs ?? 0);
    const ended = { ...base, failure };
    if (delayMs === undefined || nowMs - task.createdMs >= longestMs) {
      await results.end(ended, allOf({ tokens }, Result.FAILED, failure.code).tokens);
    } else await results.postpone(ended, { tokens, dueMs });
  }

  return {
    isHeld,
    mayBegin: (group) => !isHeld(group),
    noteBegun(group) {
      const found = away.get(group);
      if (found !== undefined) found.isProbing = true;
    },
    async run(task, under) {
      const provider = task.provider ?? providers.lookUp(task.connection?.provider ?? "");
      const group = groupOfTask(task);
      try {
        if (provider !== undefined) await attempted(task, provider, under);
        else {
          const { environment } = refOf(task);
          const tokens = (await collections.revocations.get(environment, task.id))?.value.tokens ?? [];
          const failure: RevocationFailure = { kind: "refused", code: "unknown_provider" };
          const ended = { task, provider, failure, partition: under.partition };
          await results.end(ended, allOf({ tokens }, Result.FAILED, failure.code).tokens);
        }
      } finally {
        const found = away.get(group);
        if (found !== undefined) found.isProbing = false;
      }
    },
  };
}

const groupOfTask = (task: RevocationTask): string => {
  const { environment, integration } = refOf(task);
  return groupOf(environment, integration);
};
