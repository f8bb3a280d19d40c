import type { World } from "../../../base/world.ts";
import type { RefreshRecord } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Connection, Connection_State, type ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Change, Condition, Store } from "../../../store/contract.ts";
import { leaseKeys } from "../../../store/leases.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import type { Logs, LogWriter } from "../../audit/logs.ts";
import type { Events } from "../../deliveries/events.ts";
import { type ConnectionCollections, refreshKey, refreshLease } from "../connection-collections.ts";
import { healthOf } from "./connection-health.ts";
import { beginCredentialsLog, type LogAbout, logExpiry } from "./credentials-log.ts";
import { type ConnectionSetup, createHealthJudgement, withoutAuthErrors } from "./health-judgement.ts";
import { createLackingNotes, type NoteLacking } from "./lacking-scopes.ts";
import { afterReplacement } from "./refresh-bookkeeping.ts";
import { createRefreshUpdates, type HealthUpdate, type RefreshUpdates } from "./refresh-updates.ts";
import { type ConnectionSnapshot, readSnapshot, recordOf, refOf, sameCredentials } from "./snapshot.ts";

/**
 * Keeps a connection's health in step with its events. Every function except `read` only computes changes for a commit,
 * so the caller may call again after a refused commit.
 */
export interface ConnectionHealth extends RefreshUpdates {
  /** Returns undefined if the connection does not exist. */
  read(ref: ConnectionRef): Promise<ConnectionSnapshot | undefined>;
  /** Begins a log of an operation on the connection's credentials, with the secrets to redact. */
  beginLog(about: LogAbout): LogWriter;
  /** Called when other credentials replace the former ones, or are the first. */
  noteReplacement(replacement: Replacement): HealthUpdate;
  /** Removes the refresh record together with the connection. */
  noteDeletion(ref: ConnectionRef): Promise<{ readonly changes: Change[]; readonly conditions: Condition[] }>;
  /** Called when an MCP server wants scopes that the tokens lack. */
  readonly noteLackingScopes: NoteLacking;
  /** Called when the time of a check has come, without any other event. */
  noteTime(known: ConnectionSnapshot, worksWith: Omit<ConnectionSetup, "credentials">): HealthUpdate;
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
  const { refreshes } = collections;
  const judgement = createHealthJudgement({ collections, events, world });
  const { judge } = judgement;

  return {
    ...createRefreshUpdates({ judgement, world }),
    noteLackingScopes: createLackingNotes(judgement),
    read: (ref) => readSnapshot({ store, collections }, ref),
    beginLog: (about) => beginCredentialsLog(logs, about),
    noteReplacement(replacement) {
      // A bulk import replaces thousands of connections: copy only what changes.
      const { ref, before, connection, record: recordBefore, grantedAtMs } = replacement;
      const { credentials, integration, provider } = replacement;
      const { environment, integration: key, id } = ref;
      const base = recordBefore?.value ?? { environment, integration: key, connectionId: id };
      const record = afterReplacement(base, { grantedAtMs });
      const health = healthOf({ credentials, integration, provider, record, nowMs: world.now() });
      const isDead = health.state === Connection_State.REAUTHORIZATION_REQUIRED;
      const ended = isDead ? logExpiry(logs, ref, credentials) : undefined;
      const logId = ended?.id ?? "";
      const errors = withoutAuthErrors(connection);
      const fresh = errors.length === connection.errors.length ? connection : { ...connection, errors };
      const setup = { credentials, integration, provider };
      const noted = judge({ ...setup, before, connection: fresh, record, recordBefore, logId, health, isGiven: true });
      if (ended !== undefined) noted.changes.push(...ended.changes());
      return { ...noted, conditions: [] };
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
      const setup = { ...others, credentials };
      const record = recordOf(known);
      const { state } = healthOf({ ...setup, record, nowMs: world.now() });
      const isNewlyDead = state === Connection_State.REAUTHORIZATION_REQUIRED && connection.value.state !== state;
      const ended = isNewlyDead ? logExpiry(logs, refOf(connection.value), credentials) : undefined;
      const noted = judge({
        ...setup,
        before: connection,
        connection: connection.value,
        record,
        recordBefore,
        logId: ended?.id ?? "",
      });
      return {
        ...noted,
        changes: [...noted.changes, ...(ended?.changes() ?? [])],
        conditions: [sameCredentials(known)],
      };
    },
  };
}
