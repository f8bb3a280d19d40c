import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { World } from "../../../base/world.ts";
import { type RefreshRecord, RefreshRecordSchema } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Connection, Connection_State, type ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import { type Credentials, CredentialsSchema } from "../../../gen/latchkey/v1/credentials_pb.ts";
import { type IntegrationSecrets, IntegrationSecretsSchema } from "../../../gen/latchkey/v1/integration_pb.ts";
import type { Change, Condition, Restoration, Store } from "../../../store/contract.ts";
import { leaseKeys } from "../../../store/leases.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import type { Logs, LogWriter } from "../../audit/logs.ts";
import { secretValues } from "../../audit/secret-values.ts";
import type { Events } from "../../deliveries/events.ts";
import { type ConnectionCollections, credentialsKey, refreshKey, refreshLease } from "../connection-collections.ts";
import { credentialsExpireAt } from "../credentials-expiry.ts";
import { healthOf } from "./connection-health.ts";
import { causesOf } from "./health-causes.ts";
import { type ConnectionSetup, createHealthJudgement, type Judgement, withoutAuthErrors } from "./health-judgement.ts";
import { deathLines, failureLines, msIn, recoveryLine } from "./health-messages.ts";
import {
  afterFailure,
  afterIntent,
  afterReplacement,
  afterSuccess,
  type RefreshFailure,
} from "./refresh-bookkeeping.ts";
import { reasonOf } from "./refresh-causes.ts";

/** A connection, its credentials and its refresh record, as they were read. */
export interface ConnectionSnapshot {
  readonly connection: StoredRecordOf<Connection>;
  readonly credentials: Credentials;
  /** The revision of the credentials: every update depends on it being current. */
  readonly credentialsRevision: number;
  readonly record: StoredRecordOf<RefreshRecord> | undefined;
}

/** Changes for the caller's own commit. Nothing is stored before that commit. */
export interface HealthUpdate extends Judgement {
  readonly conditions: Condition[];
}

/**
 * Keeps a connection's health in step with its events. Every function except `read` only computes changes for a commit,
 * so the caller may call again after a refused commit.
 */
export interface ConnectionHealth {
  /** Returns undefined if the connection does not exist. */
  read(ref: ConnectionRef): Promise<ConnectionSnapshot | undefined>;
  /** Begins a log of an operation on the connection's credentials, with the secrets to redact. */
  beginLog(about: LogAbout): LogWriter;
  /** Called before a token request. */
  noteIntent(known: ConnectionSnapshot, intent: { readonly attemptId: string; readonly token: string }): HealthUpdate;
  /** Called when the token request failed. Ends the log; for a dead grant, the log names the possible causes. */
  noteFailure(known: ConnectionSnapshot, failed: FailedRefresh): HealthUpdate;
  /**
   * Called when the token request succeeded. The changes store the new credentials and end the log. The log is kept if
   * the refresh is more than a routine one.
   */
  noteSuccess(known: ConnectionSnapshot, succeeded: SucceededRefresh): HealthUpdate;
  /**
   * Returns the change of the credentials alone, which does not conflict with writes to the connection itself. Their
   * health is updated later.
   */
  renewed(known: ConnectionSnapshot, credentials: Credentials): Change;
  /** Called when other credentials replace the former ones, or are the first. */
  noteReplacement(replacement: Replacement): HealthUpdate;
  /** Removes the refresh record together with the connection. */
  noteDeletion(ref: ConnectionRef): Promise<{ readonly changes: Change[]; readonly conditions: Condition[] }>;
  /** Called when the time of a check has come, without any other event. */
  noteTime(known: ConnectionSnapshot, worksWith: Omit<ConnectionSetup, "credentials">): HealthUpdate;
}

interface LogAbout {
  readonly operation: string;
  readonly ref: ConnectionRef;
  readonly credentials: Credentials;
  readonly secrets: IntegrationSecrets | undefined;
}

interface FailedRefresh extends Omit<ConnectionSetup, "credentials"> {
  readonly failure: RefreshFailure;
  readonly log: LogWriter;
  /** The number of live grants of the same account and client, if known. */
  readonly liveGrants?: number;
  /** The backup that the store was restored from. */
  readonly restoration?: Restoration | undefined;
}

interface SucceededRefresh extends ConnectionSetup {
  /** Receives the secrets of the new `credentials`, to redact them. */
  readonly log: LogWriter;
  /** Keep the log even of a routine success: a caller requested the refresh. */
  readonly isAskedFor: boolean;
  /** The client that obtained the token, if the token depends on that client. */
  readonly tokenClient?: Uint8Array | undefined;
  /** Other changes of the connection that the response reported. */
  readonly patch?: Partial<Pick<Connection, "grantedScopes" | "connectionConfig" | "metadata">>;
}

export interface Replacement extends ConnectionSetup {
  readonly ref: ConnectionRef;
  /** The connection with its new credentials, before its health is set. */
  readonly connection: Connection;
  readonly before: StoredRecordOf<Connection> | undefined;
  readonly record: StoredRecordOf<RefreshRecord> | undefined;
  /** When the end user authorized the connection; undefined if not known, such as for an import. */
  readonly grantedAtMs: number | undefined;
}

interface HealthOptions {
  readonly store: Store;
  readonly collections: ConnectionCollections;
  readonly logs: Logs;
  readonly events: Events;
  readonly world: World;
}

export function createConnectionHealth(options: HealthOptions): ConnectionHealth {
  const { store, collections, logs, events, world } = options;
  const { connections, refreshes } = collections;
  const { judge, recordChanges } = createHealthJudgement({ collections, events, world });

  async function read({ environment, integration, id }: ConnectionRef): Promise<ConnectionSnapshot | undefined> {
    const [connection, entry, record] = await Promise.all([
      connections.get(environment, integration, id),
      store.get(credentialsKey(environment, integration, id)),
      refreshes.get(environment, integration, id),
    ]);
    if (connection === undefined || entry === undefined) return undefined;
    const credentials = fromBinary(CredentialsSchema, entry.value);
    return { connection, credentials, credentialsRevision: entry.revision, record };
  }

  function beginLog({ operation, ref, credentials, secrets }: LogAbout): LogWriter {
    return logs.begin({
      operation,
      environment: ref.environment,
      integration: ref.integration,
      connectionId: ref.id,
      secrets: [
        ...secretValues(CredentialsSchema, credentials),
        ...(secrets === undefined ? [] : secretValues(IntegrationSecretsSchema, secrets)),
      ],
    });
  }

  /** Logs why the connection must be re-authorized when only time has passed. All values in the log are our own. */
  function expiryLog(ref: ConnectionRef, credentials: Credentials) {
    const { environment, integration, id: connectionId } = ref;
    const log = logs.begin({ operation: "auth.expire", environment, integration, connectionId, secrets: [] });
    const expiresAt = credentialsExpireAt(credentials);
    log.error("the credentials have run out and nothing renews them: the end user must authorise again", {
      credentials: credentials.kind.case,
      credentials_expire_at: msIn(expiresAt),
    });
    return log.end({ failed: true });
  }

  /** If the credentials were replaced, or the connection was deleted, the update no longer applies. */
  const same = ({ connection, credentialsRevision }: ConnectionSnapshot): Condition => ({
    key: credentialsKeyOf(connection.value),
    expect: credentialsRevision,
  });

  const renewed = ({ connection, credentialsRevision }: ConnectionSnapshot, credentials: Credentials): Change => ({
    key: credentialsKeyOf(connection.value),
    value: toBinary(CredentialsSchema, credentials),
    secret: true,
    expect: credentialsRevision,
  });

  return {
    read,
    beginLog,
    renewed,
    noteIntent(known, { attemptId, token }) {
      const { connection, record: before } = known;
      const record = afterIntent(recordOf(known), {
        attemptId,
        token,
        nowMs: world.now(),
      });
      return {
        changes: recordChanges(before, record),
        conditions: [same(known)],
        connection: connection.value,
        isChanged: false,
        record,
      };
    },
    noteFailure(known, { failure, log, liveGrants, restoration, ...others }) {
      const { connection, credentials, credentialsRevision, record: recordBefore } = known;
      const equipment = { ...others, credentials };
      const base = recordOf(known);
      const nowMs = world.now();
      const record = afterFailure(base, { failure, nowMs, random: Math.random(), logId: log.id });
      const isDead = failure.kind === "grant_dead";
      const isAnswerLost = record.intent !== undefined;
      const causes = isDead
        ? causesOf({
            ...{ ...equipment, record, connection: connection.value, failure, isAnswerLost, liveGrants, nowMs },
            ...{ restoration, credentialsRevision },
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
        ...equipment,
        before: connection,
        connection: connection.value,
        record,
        recordBefore,
        logId: ended.id,
      });
      return { ...noted, changes: [...noted.changes, ...ended.changes()], conditions: [same(known)] };
    },
    noteSuccess(known, { log, isAskedFor, tokenClient, patch = {}, ...equipment }) {
      const { connection, record: recordBefore } = known;
      const base = recordOf(known);
      const isRecovered = base.failures > 0 || base.deadReason !== "";
      const noted = judge({
        ...equipment,
        before: connection,
        connection: withExpiry({ ...connection.value, ...patch }, equipment.credentials),
        record: afterSuccess(base, { nowMs: world.now(), tokenClient }),
        recordBefore,
        logId: log.id,
      });
      const changes = [...noted.changes, renewed(known, equipment.credentials)];
      if (!isRecovered && !isAskedFor) return { ...noted, changes, conditions: [] };
      log.hide(...secretValues(CredentialsSchema, equipment.credentials));
      const ended = log.end({ failed: false, last: isRecovered ? [recoveryLine(base)] : [] });
      return { ...noted, changes: [...changes, ...ended.changes()], conditions: [] };
    },
    noteReplacement({ ref, before, connection, record: recordBefore, grantedAtMs, ...equipment }) {
      const base = recordBefore?.value ?? newRecord(ref);
      const record = afterReplacement(base, { grantedAtMs });
      const { state } = healthOf({ ...equipment, record, nowMs: world.now() });
      const { credentials } = equipment;
      const ended = state === Connection_State.REAUTHORIZATION_REQUIRED ? expiryLog(ref, credentials) : undefined;
      const logId = ended?.id ?? "";
      const fresh = { ...connection, errors: withoutAuthErrors(connection) };
      const noted = judge({ ...equipment, before, connection: fresh, record, recordBefore, logId, isGiven: true });
      return { ...noted, changes: [...noted.changes, ...(ended?.changes() ?? [])], conditions: [] };
    },
    async noteDeletion(ref) {
      const { environment, integration, id } = ref;
      // Releases the lease of a killed process. A live holder loses its lease, too.
      const { holder, term } = leaseKeys(refreshLease(ref));
      const released = [holder, term].map((key) => ({ key, value: undefined }));
      const record = await refreshes.get(environment, integration, id);
      if (record !== undefined)
        return { changes: [...refreshes.change({ before: record, after: undefined }), ...released], conditions: [] };
      return { changes: released, conditions: [{ key: refreshKey(environment, integration, id), expect: 0 }] };
    },
    noteTime(known, others) {
      const { connection, credentials, record: recordBefore } = known;
      const equipment = { ...others, credentials };
      const record = recordOf(known);
      const { state } = healthOf({ ...equipment, record, nowMs: world.now() });
      const isNewlyDead = state === Connection_State.REAUTHORIZATION_REQUIRED && connection.value.state !== state;
      const ended = isNewlyDead ? expiryLog(refOf(connection.value), credentials) : undefined;
      const noted = judge({
        ...equipment,
        ...{ before: connection, connection: connection.value, record, recordBefore },
        logId: ended?.id ?? "",
      });
      return { ...noted, changes: [...noted.changes, ...(ended?.changes() ?? [])], conditions: [same(known)] };
    },
  };
}

function refOf({ ref }: Pick<Connection, "ref">): ConnectionRef {
  if (ref === undefined) throw new Error("a connection has a ref");
  return ref;
}

function credentialsKeyOf(connection: Connection): string {
  const { environment, integration, id } = refOf(connection);
  return credentialsKey(environment, integration, id);
}

/** The refresh record; a new one if nothing was worth storing. */
const recordOf = ({ connection, record }: ConnectionSnapshot): RefreshRecord =>
  record?.value ?? newRecord(refOf(connection.value));

function newRecord({ environment, integration, id }: ConnectionRef): RefreshRecord {
  return create(RefreshRecordSchema, { environment, integration, connectionId: id });
}

function withExpiry(connection: Connection, credentials: Credentials): Connection {
  const { credentialsExpireAt: _former, ...rest } = connection;
  const expiresAt = credentialsExpireAt(credentials);
  return expiresAt === undefined ? rest : { ...rest, credentialsExpireAt: expiresAt };
}
