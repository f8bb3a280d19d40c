import { create, equals } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../../base/world.ts";
import type { RefreshRecord } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import {
  type Connection,
  Connection_State,
  type ConnectionError,
  ConnectionErrorSchema,
  ConnectionSchema,
} from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Credentials } from "../../../gen/latchkey/v1/credentials_pb.ts";
import type { Integration } from "../../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
import type { Change } from "../../../store/contract.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import { refreshEvent } from "../../deliveries/auth-event.ts";
import type { Events } from "../../deliveries/events.ts";
import { timestampNow } from "../../stored/timestamp-now.ts";
import type { ConnectionCollections } from "../connection-collections.ts";
import { type Health, healthOf } from "./connection-health.ts";
import { isEmptyRecord } from "./refresh-bookkeeping.ts";

/** The credentials of a connection, with its integration and provider. */
export interface ConnectionSetup {
  readonly credentials: Credentials;
  readonly integration: Integration;
  readonly provider: Provider;
}

/** A connection after an event, with everything that decides its health. */
interface JudgedConnection extends ConnectionSetup {
  readonly before: StoredRecordOf<Connection> | undefined;
  readonly connection: Connection;
  readonly record: RefreshRecord;
  readonly recordBefore: StoredRecordOf<RefreshRecord> | undefined;
  /** The log that explains why the connection must be re-authorized, if it must. */
  readonly logId: string;
  /** The health, if it was computed already. */
  readonly health?: Health;
  /** The credentials were supplied: the connection is written even if nothing differs. */
  readonly isGiven?: boolean;
}

/** The resulting health of a connection, with the changes to commit. */
export interface Judgement {
  readonly changes: Change[];
  /** The connection after the commit. Its revision is the commit's if `isChanged`. */
  readonly connection: Connection;
  /** The connection differs from before, for its watchers. */
  readonly isChanged: boolean;
  readonly record: RefreshRecord | undefined;
}

export interface HealthJudgement {
  /** Sets the connection's state, reason and errors, and the record's time of the next check. */
  judge(connection: JudgedConnection): Judgement;
  /** Returns the changes of the record only. */
  recordChanges(before: StoredRecordOf<RefreshRecord> | undefined, after: RefreshRecord): Change[];
}

interface JudgementOptions {
  readonly collections: ConnectionCollections;
  readonly events: Events;
  readonly world: World;
}

const authError = "auth";

export function createHealthJudgement({ collections, events, world }: JudgementOptions): HealthJudgement {
  const { connections, refreshes } = collections;

  /** An empty record is deleted. */
  function recordChanges(before: StoredRecordOf<RefreshRecord> | undefined, after: RefreshRecord): Change[] {
    if (!isEmptyRecord(after)) return refreshes.change({ before, after });
    return before === undefined ? [] : refreshes.change({ before, after: undefined });
  }

  function judge({
    before,
    connection,
    record: base,
    recordBefore,
    logId,
    isGiven,
    credentials,
    integration,
    provider,
    health = healthOf({ credentials, integration, provider, record: base, nowMs: world.now() }),
  }: JudgedConnection): Judgement {
    const record = withLook(base, health.lookAtMs);
    const next: Connection = {
      ...connection,
      state: health.state,
      stateReason: health.reason,
      errors: errorsOf(connection, { isDead: health.state === Connection_State.REAUTHORIZATION_REQUIRED, logId }),
    };
    const isChanged = isGiven === true || before === undefined || !equals(ConnectionSchema, before.value, next);
    if (isChanged) next.updatedAt = timestampNow(world.now());
    // The caller that supplied credentials emits the event itself.
    const event = isGiven === true || before === undefined ? undefined : refreshEvent(before.value, next);
    const changes = isChanged ? connections.change({ before, after: next }) : [];
    if (event !== undefined) changes.push(...events.auth({ ...event, connection: next, provider }));
    changes.push(...recordChanges(recordBefore, record));
    return {
      changes,
      connection: next,
      isChanged,
      record: isEmptyRecord(record) ? undefined : record,
    };
  }

  return { judge, recordChanges };
}

/** Returns the record with the time of the next check; the same record if it has none. */
function withLook(base: RefreshRecord, lookAtMs: number | undefined): RefreshRecord {
  if (lookAtMs !== undefined) return { ...base, lookAt: timestampFromMs(lookAtMs) };
  if (base.lookAt === undefined) return base;
  const { lookAt: _, ...record } = base;
  return record;
}

/** Returns the connection's errors without credential errors. */
export const withoutAuthErrors = ({ errors }: Connection): ConnectionError[] =>
  errors.filter(({ type }) => type !== authError);

interface HealthTrouble {
  readonly isDead: boolean;
  readonly logId: string;
}

/** A dead connection keeps the log of its first failure: later attempts say less. */
function errorsOf(connection: Connection, { isDead, logId }: HealthTrouble): ConnectionError[] {
  const others = withoutAuthErrors(connection);
  if (!isDead) return others;
  const known = connection.errors.find(({ type }) => type === authError);
  return [...others, known ?? create(ConnectionErrorSchema, { type: authError, logId })];
}
