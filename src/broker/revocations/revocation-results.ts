import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../base/world.ts";
import { resultOfToken } from "../../core/revocation-words.ts";
import type { RevocationTask } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import {
  TokenRevocation_Result as Result,
  type Revocation,
  Revocation_State,
  type TokenRevocation,
} from "../../gen/latchkey/v1/connection_pb.ts";
import type { Credentials } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Store } from "../../store/contract.ts";
import { transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { Logs } from "../audit/logs.ts";
import type { Events } from "../deliveries/events.ts";
import type { HeldPartition } from "../partitions/held-partition.ts";
import { createEndChanges, type FinishedRevocation, refOf, type TaskRecords } from "./ended-revocation.ts";
import type { RevocationCollections } from "./revocation-collections.ts";

/** Stores what came of attempts, each under the fence of its partition. */
export interface RevocationResults {
  /** Stores results, and deletes the task with its tokens. The audit entry, log and event are in the same commit. */
  end(attempt: StoredAttempt, tokens: readonly TokenRevocation[]): Promise<void>;
  /** Stores when the next attempt is due, and the results so far. */
  postpone(attempt: StoredAttempt, retry: RevocationRetry): Promise<void>;
  /** Stores credentials that replaced those of the task. */
  replace(attempt: Pick<StoredAttempt, "task" | "partition">, credentials: Credentials): Promise<void>;
}

export interface StoredAttempt extends FinishedRevocation {
  readonly partition: Pick<HeldPartition, "fence">;
}

interface RevocationRetry {
  readonly tokens: readonly TokenRevocation[];
  readonly dueMs: number;
}

interface RevocationResultsOptions {
  readonly store: Store;
  readonly collections: RevocationCollections;
  readonly events: Events;
  readonly logs: Logs;
  readonly audit: Audit;
  readonly world: World;
}

export function createRevocationResults(options: RevocationResultsOptions): RevocationResults {
  const { store, collections, events, logs, audit, world } = options;
  const { revocations, revocationTasks } = collections;

  async function read(task: RevocationTask): Promise<TaskRecords | undefined> {
    const { environment } = refOf(task);
    const [stored, revocation] = await Promise.all([
      revocationTasks.get(environment, task.id),
      revocations.get(environment, task.id),
    ]);
    return stored === undefined || revocation === undefined ? undefined : { task: stored, revocation };
  }

  const endChanges = createEndChanges({ collections, events, logs, audit });

  return {
    async end(attempt, tokens) {
      const failed = tokens.some(({ result }) => result === Result.FAILED);
      const { result: isEnded } = await transact(
        store,
        async () => {
          const records = await read(attempt.task);
          if (records === undefined) return { changes: [], result: false };
          const { value } = records.revocation;
          const after: Revocation = {
            ...value,
            state: failed ? Revocation_State.FAILED : Revocation_State.DONE,
            tokens: [...tokens],
            attempts: value.attempts + 1,
            lastError: attempt.failure?.code ?? value.lastError,
            endedAt: timestampFromMs(world.now()),
          };
          delete after.nextAttemptAt;
          return { changes: endChanges(attempt, records, after), result: true };
        },
        attempt.partition.fence,
      );
      if (!isEnded) return;
      for (const { result } of tokens) world.metrics.revokedTokens.inc({ result: resultOfToken({ result }) });
      const { environment, integration, id: connection } = refOf(attempt.task);
      const fields = { environment, integration, connection, code: attempt.failure?.code };
      if (failed) world.log.error("a deleted connection could not be revoked at its provider; giving up", fields);
    },
    async postpone(attempt, { tokens, dueMs }) {
      await transact(
        store,
        async () => {
          const records = await read(attempt.task);
          if (records === undefined) return { changes: [], result: undefined };
          const { task, revocation: before } = records;
          const refusals = task.value.refusals + (attempt.failure?.kind === "refused" ? 1 : 0);
          const after: Revocation = {
            ...before.value,
            tokens: [...tokens],
            attempts: before.value.attempts + 1,
            lastError: attempt.failure?.code ?? before.value.lastError,
            nextAttemptAt: timestampFromMs(dueMs),
          };
          return {
            changes: [
              ...revocations.change({ before, after }),
              ...revocationTasks.change({ before: task, after: { ...task.value, dueMs, refusals } }),
            ],
            result: undefined,
          };
        },
        attempt.partition.fence,
      );
    },
    async replace({ task, partition }, credentials) {
      await transact(
        store,
        async () => {
          const records = await read(task);
          if (records === undefined) return { changes: [], result: undefined };
          const after = { ...records.task.value, credentials };
          return { changes: revocationTasks.change({ before: records.task, after }), result: undefined };
        },
        partition.fence,
      );
    },
  };
}
