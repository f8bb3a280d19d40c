import { create } from "@bufbuild/protobuf";
import { resultOfToken } from "../../core/revocation-words.ts";
import type { RevocationTask } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import {
  type ConnectionRef,
  ConnectionRefSchema,
  TokenRevocation_Result as Result,
  type Revocation,
  Revocation_State,
} from "../../gen/latchkey/v1/connection_pb.ts";
import { CredentialsSchema } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { Change } from "../../store/contract.ts";
import type { StoredRecordOf } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { EndedLog, Logs } from "../audit/logs.ts";
import { secretValues } from "../audit/secret-values.ts";
import { targetOf } from "../connections/connection-collections.ts";
import type { Events } from "../deliveries/events.ts";
import type { RevocationFailure } from "./attempt-failure.ts";
import type { RevocationCollections } from "./revocation-collections.ts";

/** The last attempt of a task. */
export interface FinishedRevocation {
  readonly task: RevocationTask;
  readonly provider: Provider | undefined;
  readonly failure: RevocationFailure | undefined;
}

/** Read for each commit: a refresh that ended late may have changed the task. */
export interface TaskRecords {
  readonly task: StoredRecordOf<RevocationTask>;
  readonly revocation: StoredRecordOf<Revocation>;
}

interface EndChangesOptions {
  readonly collections: RevocationCollections;
  readonly events: Events;
  readonly logs: Logs;
  readonly audit: Audit;
}

/** Returns the changes that end a revocation: the results, the audit entry, the log and the event. */
export type EndChanges = (attempt: FinishedRevocation, before: TaskRecords, after: Revocation) => Change[];

export function createEndChanges({ collections, events, logs, audit }: EndChangesOptions): EndChanges {
  const { revocations, revocationTasks } = collections;

  function logChanges({ task, provider, failure }: FinishedRevocation, ended: Revocation): EndedLog {
    const { environment, integration, id: connectionId } = refOf(task);
    const secrets = task.credentials === undefined ? [] : secretValues(CredentialsSchema, task.credentials);
    const log = logs.begin({ operation: "connection.revoke", environment, integration, connectionId, secrets });
    for (const { token, result, cause } of ended.tokens) {
      const fields = {
        provider: provider?.name,
        grant: token,
        state: resultOfToken({ result }),
        cause: cause || undefined,
      };
      if (result === Result.FAILED) log.error("the token could not be revoked at the provider", fields);
      else log.info("the provider was told that the connection is deleted", fields);
    }
    const failed = ended.state === Revocation_State.FAILED;
    if (failed) log.error("giving up", { code: failure?.code, attempt: ended.attempts });
    return log.end({ failed });
  }

  function endChanges(
    attempt: FinishedRevocation,
    { task, revocation: before }: TaskRecords,
    after: Revocation,
  ): Change[] {
    const { connection, actor } = attempt.task;
    const ref = refOf(attempt.task);
    const log = logChanges(attempt, after);
    const fields = after.tokens.map(({ token, result }) => `${token}.${resultOfToken({ result })}`);
    const { environment } = ref;
    return [
      ...revocations.change({ before, after: { ...after, logId: log.id } }),
      ...revocationTasks.change({ before: task, after: undefined }),
      ...audit.changes({ actor, action: "connection.revoke", environment, targets: [targetOf(ref)], fields }),
      ...log.changes(),
      ...(connection === undefined || attempt.provider === undefined
        ? []
        : events.auth({
            operation: "revocation",
            connection,
            provider: attempt.provider,
            revocation: after,
            ...(after.state === Revocation_State.FAILED && { error: failureEvent(after) }),
          })),
    ];
  }

  return endChanges;
}

export const refOf = ({ connection }: RevocationTask): ConnectionRef => connection?.ref ?? create(ConnectionRefSchema);

const failureEvent = ({ lastError }: Revocation) => ({
  type: lastError || "revocation_failed",
  description: "the provider did not revoke the grant of the deleted connection: revoke it by hand",
});
