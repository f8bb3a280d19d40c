import { create, equals, fromBinary, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../base/world.ts";
import { refreshEvent } from "../core/auth-event.ts";
import { healthOf } from "../core/connection-health.ts";
import { credentialsExpireAt } from "../core/credentials-expiry.ts";
import {
  afterFailure,
  afterIntent,
  afterReplacement,
  afterSuccess,
  isEmptyRecord,
  type RefreshFailure,
} from "../core/refresh-bookkeeping.ts";
import { type RefreshCause, reasonOf, refreshCauses } from "../core/refresh-causes.ts";
import { secretValues } from "../core/secret-values.ts";
import { type RefreshRecord, RefreshRecordSchema } from "../gen/latchkey/stored/v1/stored_pb.ts";
import {
  type Connection,
  Connection_State,
  type ConnectionError,
  ConnectionErrorSchema,
  type ConnectionRef,
  ConnectionRefSchema,
  ConnectionSchema,
} from "../gen/latchkey/v1/connection_pb.ts";
import { type Credentials, CredentialsSchema } from "../gen/latchkey/v1/credentials_pb.ts";
import {
  type Integration,
  type IntegrationSecrets,
  IntegrationSecretsSchema,
  OAuthApp_Publishing,
} from "../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";
import type { Change, Condition, Store } from "../store/contract.ts";
import { after, partsOf } from "../store/keys.ts";
import { leaseKeys } from "../store/leases.ts";
import { type Stored, transact } from "../store/records.ts";
import { type Collections, credentialsKey, refreshKey, refreshLease, toBeLookedAt } from "./collections.ts";
import type { Events } from "./events.ts";
import type { Integrations } from "./integrations.ts";
import type { Logs, LogWriter } from "./logs.ts";
import type { Providers } from "./providers.ts";

/** A connection, its credentials and what is remembered of their renewals, as they were read. */
export interface Known {
  readonly connection: Stored<Connection>;
  readonly credentials: Credentials;
  /** Of the credentials: whatever is noted rests on their being the same still. */
  readonly credentialsRevision: number;
  readonly record: Stored<RefreshRecord> | undefined;
}

/** What a connection works with. */
export interface Equipment {
  readonly credentials: Credentials;
  readonly integration: Integration;
  readonly provider: Provider;
}

/** For the caller's own commit: nothing of it has happened before that. */
export interface Noted {
  readonly changes: Change[];
  readonly conditions: Condition[];
  /** As the commit leaves it; its revision is the commit's where `isChanged`. */
  readonly connection: Connection;
  /** It is another one than before, to whoever watches it. */
  readonly isChanged: boolean;
  readonly record: RefreshRecord | undefined;
}

/**
 * Keeps what is said of a connection's health in step with what happens to it. Each verb but the last works out the
 * changes of a commit and does nothing by itself, so that it may be asked again when the commit was refused.
 */
export interface ConnectionHealth {
  /** Undefined when there is no such connection. */
  read(ref: ConnectionRef): Promise<Known | undefined>;
  /** A log of something that is done to the connection's credentials; it knows what to blank. */
  beginLog(about: LogAbout): LogWriter;
  /** Before a token endpoint is asked. */
  noteIntent(known: Known, intent: { readonly attemptId: string; readonly token: string }): Noted;
  /** It gave no token. Ends the log; where the grant is dead, says in it which causes fit. */
  noteFailure(known: Known, failed: Failed): Noted;
  /** It gave one: the changes store the new credentials too. Ends the log, which is kept where it tells of more than a renewal like any other. */
  noteSuccess(known: Known, succeeded: Succeeded): Noted;
  /** The new credentials alone, whatever else is written at the same moment; what is said of them follows. */
  renewed(known: Known, credentials: Credentials): Change;
  /** Other credentials take the place of the former, or are the first. */
  noteReplacement(replacement: Replacement): Noted;
  /** What was remembered goes with the connection. */
  noteDeletion(ref: ConnectionRef): Promise<{ readonly changes: Change[]; readonly conditions: Condition[] }>;
  /** Looks at those whose time has come; returns how many. */
  sweep(signal: AbortSignal): Promise<number>;
}

interface LogAbout {
  readonly operation: string;
  readonly ref: ConnectionRef;
  readonly credentials: Credentials;
  readonly secrets: IntegrationSecrets | undefined;
}

interface Failed extends Omit<Equipment, "credentials"> {
  readonly failure: RefreshFailure;
  readonly log: LogWriter;
  /** How many live grants of the same account and client there are, where that is known. */
  readonly liveGrants?: number;
}

interface Succeeded extends Equipment {
  /** The new ones are `credentials`. */
  readonly log: LogWriter;
  /** Keep the log though nothing had gone wrong: somebody asked for the renewal. */
  readonly isAskedFor: boolean;
  /** Which client the token was obtained with, where that makes a difference. */
  readonly tokenClient?: Uint8Array | undefined;
  /** What else of the connection the answer changed. */
  readonly patch?: Partial<Pick<Connection, "grantedScopes" | "connectionConfig" | "metadata">>;
}

export interface Replacement extends Equipment {
  readonly ref: ConnectionRef;
  /** The connection as it is to be, with its new credentials, and nothing said yet of its health. */
  readonly connection: Connection;
  readonly before: Stored<Connection> | undefined;
  readonly record: Stored<RefreshRecord> | undefined;
  /** When the end user authorised it; undefined where nobody knows, as of an import. */
  readonly grantedAtMs: number | undefined;
}

interface HealthOptions {
  readonly store: Store;
  readonly collections: Collections;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly logs: Logs;
  readonly events: Events;
  readonly world: World;
}

const authError = "auth";
const perSweep = 200;

export function createConnectionHealth(options: HealthOptions): ConnectionHealth {
  const { store, collections, integrations, providers, logs, events, world } = options;
  const { connections, refreshes } = collections;

  async function read({ environment, integration, id }: ConnectionRef): Promise<Known | undefined> {
    const [connection, entry, record] = await Promise.all([
      connections.get(environment, integration, id),
      store.get(credentialsKey(environment, integration, id)),
      refreshes.get(environment, integration, id),
    ]);
    if (connection === undefined || entry === undefined) return undefined;
    const credentials = fromBinary(CredentialsSchema, entry.value);
    return { connection, credentials, credentialsRevision: entry.revision, record };
  }

  /** A record that holds nothing is none. */
  function recordChanges(before: Stored<RefreshRecord> | undefined, after: RefreshRecord): Change[] {
    if (!isEmptyRecord(after)) return refreshes.change({ before, after });
    return before === undefined ? [] : refreshes.change({ before, after: undefined });
  }

  interface Judged extends Equipment {
    readonly before: Stored<Connection> | undefined;
    readonly connection: Connection;
    readonly record: RefreshRecord;
    readonly recordBefore: Stored<RefreshRecord> | undefined;
    /** Of the log that tells why it must be authorised again, if it must. */
    readonly logId: string;
    /** It is written whether or not it differs. */
    readonly isGiven?: boolean;
  }

  /** The connection with its state, reason and errors, and its record with the time to look again. */
  function judged({
    before,
    connection,
    record: base,
    recordBefore,
    logId,
    isGiven = false,
    ...equipment
  }: Judged): Noted {
    const health = healthOf({ ...equipment, record: base, nowMs: world.now() });
    const record = { ...base };
    if (health.lookAtMs === undefined) delete record.lookAt;
    else record.lookAt = timestampFromMs(health.lookAtMs);
    const draft: Connection = {
      ...connection,
      state: health.state,
      stateReason: health.reason,
      errors: errorsOf(connection, { isDead: health.state === Connection_State.REAUTHORIZATION_REQUIRED, logId }),
    };
    const isChanged = isGiven || before === undefined || !equals(ConnectionSchema, before.value, draft);
    const next = isChanged ? { ...draft, updatedAt: timestampFromMs(world.now()) } : draft;
    // Of what somebody gave, whoever asked for it tells.
    const event = isGiven || before === undefined ? undefined : refreshEvent(before.value, next);
    const { provider } = equipment;
    return {
      changes: [
        ...(event === undefined ? [] : events.auth({ ...event, connection: next, provider })),
        ...(isChanged ? connections.change({ before, after: next }) : []),
        ...recordChanges(recordBefore, record),
      ],
      conditions: [],
      connection: next,
      isChanged,
      record: isEmptyRecord(record) ? undefined : record,
    };
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

  /** Why it must be authorised again, when nobody but the clock has said so. Nothing in it comes from elsewhere. */
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

  /** Looked at because its time has come: nothing was done to it. */
  async function look(ref: ConnectionRef): Promise<void> {
    const at = { environment: ref.environment, key: ref.integration };
    await transact(store, async () => {
      const known = await read(ref);
      const record = known?.record ?? (await refreshes.get(ref.environment, ref.integration, ref.id));
      if (record === undefined) return { changes: [], result: undefined };
      if (known === undefined)
        return { changes: refreshes.change({ before: record, after: undefined }), result: undefined };
      const { credentials } = known;
      const { value: integration } = await integrations.get(at);
      const provider = providers.find(known.connection.value.provider);
      const equipment = { credentials, integration, provider };
      const { state } = healthOf({ ...equipment, record: record.value, nowMs: world.now() });
      const isNewlyDead = state === Connection_State.REAUTHORIZATION_REQUIRED && known.connection.value.state !== state;
      const ended = isNewlyDead ? expiryLog(ref, credentials) : undefined;
      const { changes } = judged({
        ...equipment,
        before: known.connection,
        connection: known.connection.value,
        record: record.value,
        recordBefore: record,
        logId: ended?.id ?? "",
      });
      return { changes: [...changes, ...(ended?.changes() ?? [])], conditions: [same(known)], result: undefined };
    });
  }

  /** Somebody may have put others in their place, or deleted the connection: then what was seen of them is void. */
  const same = ({ connection, credentialsRevision }: Known): Condition => ({
    key: credentialsKeyOf(connection.value),
    expect: credentialsRevision,
  });

  const renewed = ({ connection, credentialsRevision }: Known, credentials: Credentials): Change => ({
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
      const record = afterIntent(before?.value ?? newRecord(connection.value), {
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
    noteFailure(known, { failure, log, liveGrants, ...others }) {
      const { connection, credentials, record: recordBefore } = known;
      const equipment = { ...others, credentials };
      const base = recordBefore?.value ?? newRecord(connection.value);
      const nowMs = world.now();
      const record = afterFailure(base, { failure, nowMs, random: Math.random(), logId: log.id });
      const isDead = failure.kind === "grant_dead";
      const isAnswerLost = record.intent !== undefined;
      const causes = isDead
        ? causesOf({ ...equipment, record, connection, failure, isAnswerLost, liveGrants, nowMs })
        : [];
      if (isDead) {
        record.deadReason = reasonOf(causes);
        delete record.intent;
        delete record.notBefore;
      }
      const ended = log.end({
        failed: true,
        last: isDead ? deathLines(causes, record) : failureLines(record, failure),
      });
      const noted = judged({
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
      const base = recordBefore?.value ?? newRecord(connection.value);
      const isRecovered = base.failures > 0 || base.deadReason !== "";
      const noted = judged({
        ...equipment,
        before: connection,
        connection: withExpiry({ ...connection.value, ...patch }, equipment.credentials),
        record: afterSuccess(base, { nowMs: world.now(), tokenClient }),
        recordBefore,
        logId: log.id,
      });
      const changes = [...noted.changes, renewed(known, equipment.credentials)];
      if (!isRecovered && !isAskedFor) return { ...noted, changes };
      log.hide(...secretValues(CredentialsSchema, equipment.credentials));
      const ended = log.end({ failed: false, last: isRecovered ? [recoveryLine(base)] : [] });
      return { ...noted, changes: [...changes, ...ended.changes()] };
    },
    noteReplacement({ ref, before, connection, record: recordBefore, grantedAtMs, ...equipment }) {
      const base = recordBefore?.value ?? newRecord({ ref });
      const record = afterReplacement(base, { grantedAtMs });
      const { state } = healthOf({ ...equipment, record, nowMs: world.now() });
      const { credentials } = equipment;
      const ended = state === Connection_State.REAUTHORIZATION_REQUIRED ? expiryLog(ref, credentials) : undefined;
      const logId = ended?.id ?? "";
      const fresh = { ...connection, errors: connection.errors.filter(({ type }) => type !== authError) };
      const noted = judged({ ...equipment, before, connection: fresh, record, recordBefore, logId, isGiven: true });
      return { ...noted, changes: [...noted.changes, ...(ended?.changes() ?? [])] };
    },
    async noteDeletion(ref) {
      const { environment, integration, id } = ref;
      // That of a process which was killed; whoever has one loses it.
      const { holder, term } = leaseKeys(refreshLease(ref));
      const released = [holder, term].map((key) => ({ key, value: undefined }));
      const record = await refreshes.get(environment, integration, id);
      if (record !== undefined)
        return { changes: [...refreshes.change({ before: record, after: undefined }), ...released], conditions: [] };
      return { changes: released, conditions: [{ key: refreshKey(environment, integration, id), expect: 0 }] };
    },
    async sweep(signal) {
      let looked = 0;
      let { from, to } = toBeLookedAt(world.now());
      while (!signal.aborted) {
        const found = await store.list({ from, to, limit: perSweep });
        for (const { key } of found) {
          if (signal.aborted) break;
          const [environment = "", integration = "", id = ""] = partsOf(key).slice(-3);
          try {
            await look(create(ConnectionRefSchema, { environment, integration, id }));
            looked += 1;
          } catch (err) {
            // One that cannot be looked at keeps no other from it, and is looked at again.
            const connection = id;
            world.log.warn("the health of a connection was not looked at", {
              environment,
              integration,
              connection,
              err,
            });
          }
        }
        const last = found.at(-1);
        if (last === undefined || found.length < perSweep) break;
        from = after(last.key);
      }
      return looked;
    },
  };
}

function credentialsKeyOf({ ref }: Pick<Connection, "ref">): string {
  if (ref === undefined) throw new Error("a connection has a ref");
  return credentialsKey(ref.environment, ref.integration, ref.id);
}

function newRecord({ ref }: Pick<Connection, "ref">): RefreshRecord {
  if (ref === undefined) throw new Error("a connection has a ref");
  const { environment, integration, id } = ref;
  return create(RefreshRecordSchema, { environment, integration, connectionId: id });
}

interface Trouble {
  readonly isDead: boolean;
  readonly logId: string;
}

/** One that is dead keeps the log of how it died: what is tried afterwards says less. */
function errorsOf({ errors }: Connection, { isDead, logId }: Trouble): ConnectionError[] {
  const others = errors.filter(({ type }) => type !== authError);
  if (!isDead) return others;
  const known = errors.find(({ type }) => type === authError);
  return [...others, known ?? create(ConnectionErrorSchema, { type: authError, logId })];
}

function withExpiry(connection: Connection, credentials: Credentials): Connection {
  const { credentialsExpireAt: _former, ...rest } = connection;
  const expiresAt = credentialsExpireAt(credentials);
  return expiresAt === undefined ? rest : { ...rest, credentialsExpireAt: expiresAt };
}

interface Death extends Equipment {
  readonly record: RefreshRecord;
  readonly connection: Stored<Connection>;
  readonly failure: RefreshFailure;
  readonly isAnswerLost: boolean;
  readonly liveGrants: number | undefined;
  readonly nowMs: number;
}

function causesOf({ record, connection, failure, integration, provider, ...rest }: Death): RefreshCause[] {
  const rules = provider.auth.case === "oauth2" ? provider.auth.value : undefined;
  const asked = integration.oauth?.scopes ?? [];
  const granted = connection.value.grantedScopes;
  const scopes = [granted, asked, rules?.defaultScopes ?? []].find(({ length }) => length > 0) ?? [];
  return refreshCauses({
    rules,
    publishing: integration.oauth?.publishing ?? OAuthApp_Publishing.UNSPECIFIED,
    scopes,
    grantedAtMs: record.grantedAt === undefined ? undefined : timestampMs(record.grantedAt),
    lastRenewedAtMs: record.lastSucceededAt === undefined ? undefined : timestampMs(record.lastSucceededAt),
    code: failure.code,
    isAnswerLost: rest.isAnswerLost,
    liveGrants: rest.liveGrants,
    nowMs: rest.nowMs,
  });
}

const msIn = (at: RefreshRecord["grantedAt"]): number | undefined => (at === undefined ? undefined : timestampMs(at));

function deathLines(
  causes: readonly RefreshCause[],
  { lastCode, grantedAt, lastSucceededAt, deadReason }: RefreshRecord,
) {
  const known = { code: lastCode, granted_at: msIn(grantedAt), last_succeeded_at: msIn(lastSucceededAt) };
  return [
    {
      level: "error",
      sentence: "the provider does not take the refresh token any more: the end user must authorise again",
      fields: { reason: deadReason, ...known },
    },
    ...causes.map(
      ({ code, text, isLikely }) =>
        ({
          level: isLikely ? "warn" : "info",
          sentence: isLikely ? "what is known points to this cause" : "this cause is not excluded",
          fields: { cause: code, detail: text },
        }) as const,
    ),
  ] as const;
}

function failureLines(
  { failures, firstFailedAt, notBefore }: RefreshRecord,
  { kind, code, retryAfterMs }: RefreshFailure,
) {
  const fields = {
    failure: kind,
    code,
    failures,
    failing_since: msIn(firstFailedAt),
    next_attempt_at: msIn(notBefore),
    retry_after_ms: retryAfterMs,
  };
  return [{ level: "warn", sentence: "the credentials could not be renewed; it will be tried again", fields }] as const;
}

const recoveryLine = ({ failures, firstFailedAt }: RefreshRecord) =>
  ({
    level: "info",
    sentence: "the credentials were renewed again",
    fields: { failures, failing_since: msIn(firstFailedAt) },
  }) as const;
