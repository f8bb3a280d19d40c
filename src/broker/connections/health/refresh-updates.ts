import { clone } from "@bufbuild/protobuf";
import { credentialsExpireAt } from "../../../auth/credential-life.ts";
import type { World } from "../../../base/world.ts";
import { RefreshRecordSchema } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Connection } from "../../../gen/latchkey/v1/connection_pb.ts";
import { type Credentials, CredentialsSchema } from "../../../gen/latchkey/v1/credentials_pb.ts";
import type { Change, Condition, Restoration } from "../../../store/contract.ts";
import type { LogWriter } from "../../audit/logs.ts";
import { secretValues } from "../../audit/secret-values.ts";
import { causesOf } from "./health-causes.ts";
import type { ConnectionSetup, HealthJudgement, Judgement } from "./health-judgement.ts";
import { deathLines, failureLines, recoveryLine } from "./health-messages.ts";
import { afterFailure, afterIntent, afterSuccess, type RefreshFailure } from "./refresh-bookkeeping.ts";
import { reasonOf } from "./refresh-causes.ts";
import { type ConnectionSnapshot, credentialsChange, recordOf, sameCredentials } from "./snapshot.ts";

/** Changes for the caller's own commit. Nothing is stored before that commit. */
export interface HealthUpdate extends Judgement {
  readonly conditions: Condition[];
}

/** The changes that a refresh makes to its connection, before and after the token request. */
export interface RefreshUpdates {
  /** Called before a token request. */
  noteIntent(known: ConnectionSnapshot, intent: { readonly attemptId: string; readonly token: string }): HealthUpdate;
  /** Called when the token request failed. Ends the log; for a dead grant, the log names the possible causes. */
  noteFailure(known: ConnectionSnapshot, failed: FailedRefresh): HealthUpdate;
  /**
   * Called when the token request succeeded. The changes store the new credentials and end the log. The log is kept if
   * the refresh is more than a routine one.
   */
  noteSuccess(known: ConnectionSnapshot, succeeded: SucceededRefresh): HealthUpdate;
  /** Called when the request for a further token has ended. It says nothing about the health of the connection. */
  noteFurther(known: ConnectionSnapshot, ended: FurtherRefresh): HealthUpdate;
}

interface FurtherRefresh {
  /** The credentials to store; undefined: they stay. */
  readonly credentials: Credentials | undefined;
  readonly changes?: readonly Change[];
}

export interface FailedRefresh extends Omit<ConnectionSetup, "credentials"> {
  readonly failure: RefreshFailure;
  readonly log: LogWriter;
  /** The number of live grants of the same account and client, if known. */
  readonly liveGrants?: number;
  /** The backup that the store was restored from. */
  readonly restoration?: Restoration | undefined;
}

export interface SucceededRefresh extends ConnectionSetup {
  /** Receives the secrets of the new `credentials`, to redact them. */
  readonly log: LogWriter;
  /** Keep the log even of a routine success: a caller requested the refresh. */
  readonly isAskedFor: boolean;
  /** The client that obtained the token, if the token depends on that client. */
  readonly tokenClient?: Uint8Array | undefined;
  /** Other changes of the connection that the response reported. */
  readonly patch?: Partial<Pick<Connection, "grantedScopes" | "connectionConfig" | "metadata">>;
}

interface RefreshUpdatesOptions {
  readonly judgement: HealthJudgement;
  readonly world: World;
}

export function createRefreshUpdates({ judgement, world }: RefreshUpdatesOptions): RefreshUpdates {
  const { judge, recordChanges } = judgement;
  return {
    noteIntent(known, { attemptId, token }) {
      const { connection, record: before } = known;
      const record = afterIntent(recordOf(known), { attemptId, token, nowMs: world.now() });
      return {
        changes: recordChanges(before, record),
        conditions: [sameCredentials(known)],
        connection: connection.value,
        isChanged: false,
        record,
      };
    },
    noteFailure(known, { failure, log, liveGrants, restoration, ...others }) {
      const { connection, credentials, credentialsRevision, record: recordBefore } = known;
      const setup = { ...others, credentials };
      const nowMs = world.now();
      const record = afterFailure(recordOf(known), { failure, nowMs, random: Math.random(), logId: log.id });
      const isDead = failure.kind === "grant_dead";
      const isAnswerLost = record.intent !== undefined;
      const causes = isDead
        ? causesOf({
            ...setup,
            record,
            connection: connection.value,
            failure,
            isAnswerLost,
            liveGrants,
            nowMs,
            restoration,
            credentialsRevision,
          })
        : [];
      if (isDead) {
        // A dead connection keeps the reason of its first failure: later attempts say less.
        record.deadReason ||= reasonOf(causes);
        delete record.intent;
        delete record.notBefore;
      }
      const ended = log.end({
        failed: true,
        last: isDead ? deathLines(causes, record) : failureLines(record, failure),
      });
      const noted = judge({
        ...setup,
        before: connection,
        connection: connection.value,
        record,
        recordBefore,
        logId: ended.id,
      });
      return { ...noted, changes: [...noted.changes, ...ended.changes()], conditions: [sameCredentials(known)] };
    },
    noteFurther(known, { credentials, changes = [] }) {
      const { connection, record: before } = known;
      const record = clone(RefreshRecordSchema, recordOf(known));
      delete record.intent;
      return {
        changes: [
          ...recordChanges(before, record),
          ...(credentials === undefined ? [] : [credentialsChange(known, credentials)]),
          ...changes,
        ],
        conditions: credentials === undefined ? [sameCredentials(known)] : [],
        connection: connection.value,
        isChanged: false,
        record,
      };
    },
    noteSuccess(known, { log, isAskedFor, tokenClient, patch = {}, ...setup }) {
      const { connection, record: recordBefore } = known;
      const base = recordOf(known);
      const isRecovered = base.failures > 0 || base.deadReason !== "";
      const noted = judge({
        ...setup,
        before: connection,
        connection: withExpiry({ ...connection.value, ...patch }, setup.credentials),
        record: afterSuccess(base, { nowMs: world.now(), tokenClient }),
        recordBefore,
        logId: log.id,
      });
      const changes = [...noted.changes, credentialsChange(known, setup.credentials)];
      if (!isRecovered && !isAskedFor) return { ...noted, changes, conditions: [] };
      log.hide(...secretValues(CredentialsSchema, setup.credentials));
      const ended = log.end({ failed: false, last: isRecovered ? [recoveryLine(base)] : [] });
      return { ...noted, changes: [...changes, ...ended.changes()], conditions: [] };
    },
  };
}

function withExpiry(connection: Connection, credentials: Credentials): Connection {
  const { credentialsExpireAt: _former, ...rest } = connection;
  const expiresAt = credentialsExpireAt(credentials);
  return expiresAt === undefined ? rest : { ...rest, credentialsExpireAt: expiresAt };
}
