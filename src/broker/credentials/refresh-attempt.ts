import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { create, equals } from "@bufbuild/protobuf";
import { TokenFailure, type Tokens } from "../../auth/oauth2/tokens.ts";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { missingScopes } from "../../core/granted-scopes.ts";
import type { Connection, ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import { type Credentials, CredentialsSchema } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Integration, IntegrationSecrets } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import {
  type Change,
  type Condition,
  type Restoration,
  StaleWrite,
  type Store,
  StoreUnavailable,
} from "../../store/contract.ts";
import type { FreeLease } from "../../store/leases.ts";
import { SealKeyMissing } from "../../store/sealed/seal-key.ts";
import type { LogWriter } from "../audit/logs.ts";
import type { ConnectionHealth, ConnectionSnapshot, HealthUpdate } from "../connections/health/health.ts";
import { isForOperator } from "../connections/health/refresh-bookkeeping.ts";
import type { TokenEndpoint, TokenRequest } from "../tokens/token-endpoint.ts";
import type { GrantCount } from "./grant-count.ts";
import type { RefreshBreaker } from "./refresh-breaker.ts";
import { misconfigured, reauthorize, unavailable } from "./refresh-faults.ts";
import { type KeptLease, keepLease, type RefreshLeaseTimes } from "./refresh-lease.ts";
import type { RefreshPace } from "./refresh-pace.ts";
import { type Renewal, renewalOf, renewed } from "./refresh-timing.ts";
import { tokenClient } from "./token-client.ts";

/** A connection as it was read, with what its refresh needs. */
export interface RefreshTarget {
  readonly known: ConnectionSnapshot;
  readonly integration: Integration;
  readonly secrets: IntegrationSecrets | undefined;
  readonly provider: Provider;
}

export interface Attempt extends RefreshRun {
  readonly ref: ConnectionRef;
  readonly found: RefreshTarget;
  readonly renewal: Renewal;
  /** The free lease, read together with the target and acquired in the commit of the intent. */
  readonly free: FreeLease;
  readonly log: LogWriter;
  /** The credentials may still be valid; the refresh is then logged. */
  readonly isForced: boolean;
}

/** A stored intent to refresh, with the target as it was then. */
interface RefreshIntent {
  readonly attemptId: string;
  readonly found: RefreshTarget;
  readonly revision: number;
}

/** An attempt whose request was sent. */
interface SentRefresh {
  readonly trying: Attempt;
  readonly kept: KeptLease;
  readonly intent: RefreshIntent;
}

export interface RefreshRun extends RefreshCallbacks {
  /** Called before sending: from then on the provider may have acted. */
  readonly onSent: () => void;
}

/** Callbacks of a refresh. Callers need not wait for its end once one of these was called. */
export interface RefreshCallbacks {
  /** The new credentials are stored and survive a crash. */
  readonly onDurable: () => void;
  /** The result cannot be stored yet. */
  readonly onStoreTrouble: (error: unknown) => void;
}

interface AttemptsOptions {
  readonly read: (ref: ConnectionRef) => Promise<RefreshTarget>;
  /** Undefined while another process refreshes the connection. */
  readonly findLease: (ref: ConnectionRef) => Promise<FreeLease | undefined>;
  readonly store: Store;
  readonly health: ConnectionHealth;
  readonly tokens: TokenEndpoint;
  readonly grants: GrantCount;
  /** The backup that the store was restored from. */
  readonly restorationOf: () => Promise<Restoration | undefined>;
  readonly breaker: RefreshBreaker;
  readonly pace: RefreshPace;
  readonly times: RefreshLeaseTimes;
  /** True when running attempts must be abandoned. */
  readonly isOver: () => boolean;
  readonly world: World;
}

/**
 * Runs a refresh: stores the intent, requests the token, stores the result. `again`: another write changed the
 * connection in the meantime.
 */
export type RunAttempt = (trying: Attempt) => Promise<"done" | "again">;

/**
 * A token request has 60 s and may be sent twice. Callers that wait longer than this get an error that asks for a
 * retry.
 */
export const patienceMs = 75_000;
/** Wait between checks while another process refreshes. */
export const lookAgainMs = 100;
const storeRetryMs = 1_000;

export function createAttempts(options: AttemptsOptions): RunAttempt {
  const { read, findLease, store, health, tokens, grants, breaker, pace, times, restorationOf, isOver, world } =
    options;
  const { metrics, log } = world;
  const { renewEveryMs } = times;
  const count = (outcome: string) => metrics.refreshes.inc({ outcome });

  async function attempt(trying: Attempt): Promise<"done" | "again"> {
    const { found, free } = trying;
    // The commit depends on the state just read: with stale state or a taken lease, the store refuses the commit.
    const intent = await noteIntent(trying, found, { changes: free.changes });
    if (intent === undefined) return "again";
    const kept = keepLease(free.taken(intent.revision), { renewEveryMs, log });
    try {
      return await askUnder({ trying, kept, intent });
    } finally {
      await kept.end();
    }
  }

  async function askUnder({ trying, kept, intent: first }: SentRefresh): Promise<"done" | "again"> {
    const { ref, renewal, log: writer } = trying;
    for (let intent = first; ; ) {
      // After a pause, another process may have used the refresh token, which must not be sent twice.
      if (!(await kept.isOurs())) return "again";
      trying.onSent();
      const mayGoAgain = renewal.grant.type === "refresh_token" && intent === first;
      // A kept-alive connection may close during the request. Then the request is sent once more, over a new
      // connection.
      const answer = await ask(trying, intent.found, { mayFollow: mayGoAgain });
      if (!(answer instanceof TokenFailure)) {
        breaker.noteSuccess(breakerKey(ref));
        return write({ trying, kept, intent }, answer, trying.found.known.credentials);
      }
      writer.warn("the token endpoint gave no token", { failure: answer.kind, code: answer.code });
      // The provider may have acted on the request. Retry at once, while it may still accept the same token.
      if (answer.kind === "uncertain" && mayGoAgain) {
        const second = await noteIntent(trying, await read(ref), { conditions: [kept.lease.fence] });
        if (second === undefined) return "again";
        intent = second;
        continue;
      }
      return noteFailure({ trying, kept, intent }, answer);
    }
  }

  interface With {
    readonly changes?: readonly Change[];
    readonly conditions?: readonly Condition[];
  }

  /** Stores the intent before anything is sent. A process that finds an intent knows that the outcome is unknown. */
  async function noteIntent(
    { found, renewal }: Attempt,
    now: RefreshTarget,
    more: With,
  ): Promise<RefreshIntent | undefined> {
    if (!isSame(now, found.known.credentials)) return undefined;
    const attemptId = randomUUID();
    const { changes, conditions, record } = health.noteIntent(now.known, { attemptId, token: renewal.spent });
    try {
      const revision = await store.commit(
        [...(more.changes ?? []), ...changes],
        [...(more.conditions ?? []), ...conditions],
      );
      // The size is not used.
      const stored = record && { value: record, revision, bytes: 0 };
      return { attemptId, revision, found: { ...now, known: { ...now.known, record: stored } } };
    } catch (error) {
      // Another process attempts a refresh, the credentials changed, or the same ones were re-encrypted: read again.
      if (error instanceof StaleWrite) return undefined;
      throw error;
    }
  }

  async function ask(
    { renewal }: Attempt,
    found: RefreshTarget,
    { mayFollow }: Pick<TokenRequest, "mayFollow">,
  ): Promise<Tokens | TokenFailure> {
    const { provider, integration, secrets, known } = found;
    const since = performance.now();
    metrics.refreshesOpen.inc();
    try {
      return await tokens.ask({
        provider,
        integration,
        secrets,
        client: renewal.client,
        connectionConfig: { ...integration.connectionDefaults, ...known.connection.value.connectionConfig },
        grant: renewal.grant,
        dpopKey: renewal.dpopKey,
        mayFollow,
      });
    } catch (error) {
      if (error instanceof TokenFailure) return error;
      throw error;
    } finally {
      metrics.refreshesOpen.dec();
      metrics.refreshSeconds.observe((performance.now() - since) / 1_000);
    }
  }

  /** Stores the new tokens. Nothing may delay this commit, and while the store refuses, it is retried. */
  async function write(asked: SentRefresh, answer: Tokens, base: Credentials): Promise<"done" | "again"> {
    const { intent, trying } = asked;
    const { ref, log: writer, isForced: isAskedFor } = trying;
    const credentials = create(CredentialsSchema, { kind: renewed(base, answer) });
    const decide = ({ known, integration, provider }: RefreshTarget) => {
      const patch = patchOf(known.connection.value, answer);
      const own = tokenClient({ ...intent.found, credentials });
      return health.noteSuccess(known, {
        ...{ credentials, integration, provider, log: writer, isAskedFor, patch },
        tokenClient: own,
      });
    };
    const outcome = await commitNoted(asked, decide, credentials);
    if (outcome === "refused") return confirm(trying, credentials);
    count(outcome === "written" ? "renewed" : "overtaken");
    if (outcome === "written") return "done";
    log.info("renewed credentials were dropped: newer ones had been stored", about(ref));
    return "again";
  }

  /**
   * Handles a late success: this process was paused during its request, and another one was refused with the same
   * refresh token. The provider may have revoked everything from that token, or the late response may be the valid one.
   * Only a refresh with the late response's own token can tell, so nothing is reported before.
   */
  async function confirm(trying: Attempt, late: Credentials): Promise<"done" | "again"> {
    const { ref, log: writer } = trying;
    const found = await read(ref);
    const renewal = renewalOf({ ...found, credentials: late });
    const free = await findLease(ref);
    const isOpen = isSame(found, trying.found.known.credentials) && free !== undefined;
    const now = { ...trying, found, renewal: renewal ?? trying.renewal };
    const isNewer = renewal !== undefined && renewal.spent !== trying.renewal.spent;
    const intent = isOpen && isNewer ? await noteIntent(now, found, { changes: free.changes }) : undefined;
    if (!isOpen || !isNewer || intent === undefined) {
      count("overtaken");
      log.info("renewed credentials were dropped: the provider has refused their grant since", about(ref));
      return "again";
    }
    writer.warn(
      "another process was refused with the same refresh token meanwhile; trying the late answer's own token",
    );
    const kept = keepLease(free.taken(intent.revision), { renewEveryMs, log });
    try {
      const answer = await ask(now, found, { mayFollow: false });
      if (!(answer instanceof TokenFailure)) return await write({ trying: now, kept, intent }, answer, late);
      writer.warn("the token endpoint gave no token", { failure: answer.kind, code: answer.code });
      return await noteFailure({ trying: now, kept, intent }, answer);
    } finally {
      await kept.end();
    }
  }

  /** Stores a failure and rejects with the callers' error. `again`: the failure is older than the current state. */
  async function noteFailure(asked: SentRefresh, failure: TokenFailure): Promise<"again"> {
    const { ref, log: writer } = asked.trying;
    let reason = failure.code;
    const outcome = await commitNoted(asked, async ({ known, integration, provider }) => {
      // The count includes this connection, whose grant was found dead only now.
      const liveGrants =
        failure.kind === "grant_dead" ? await grants.count(known.connection.value, provider) : undefined;
      const restoration = failure.kind === "grant_dead" ? await restorationOf() : undefined;
      const noted = health.noteFailure(known, {
        ...{ failure, log: writer, integration, provider, restoration },
        ...(liveGrants !== undefined && { liveGrants }),
      });
      reason = noted.record?.deadReason || failure.code;
      return noted;
    });
    // Other credentials were stored, or a newer attempt was refused: this failure does not apply to the current state.
    if (outcome !== "written") {
      count("overtaken");
      return "again";
    }
    const { kind, code, retryAfterMs } = failure;
    // A failure caused by one connection's own address or client does not apply to the other connections.
    if (!ofOneConnection.has(code))
      breaker.noteFailure(breakerKey(ref), { kind, code, retryAfterMs, nowMs: world.now(), random: Math.random() });
    count(kind);
    if (kind === "grant_dead") {
      log.warn("a connection must be authorised again", { ...about(ref), code, reason, log_id: writer.id });
      throw reauthorize(ref, reason);
    }
    if (isForOperator(kind)) {
      log.error("the provider refuses the client of an integration: its connections cannot be renewed", {
        environment: ref.environment,
        integration: ref.integration,
        code,
        log_id: writer.id,
      });
      throw misconfigured(code);
    }
    throw unavailable(`renewal fails (${code})`, Math.max(1, (retryAfterMs ?? 0) / 1_000));
  }

  /**
   * Commits a decision, and decides again each time another part of the connection changes. Ends when its credentials
   * have changed. If others write to the connection without pause, `credentials` are stored alone first.
   */
  async function commitNoted(
    { trying, kept, intent }: SentRefresh,
    decide: (now: RefreshTarget) => HealthUpdate | Promise<HealthUpdate>,
    credentials?: Credentials,
  ): Promise<"written" | "overtaken" | "refused"> {
    const { ref, found, onDurable, onStoreTrouble } = trying;
    /** Only `confirm` refreshes a dead grant again. */
    const wasDead = isDead(found);
    const until = performance.now() + patienceMs;
    /** The state after the intent. If it has changed, the commit is refused, and only then the state is read again. */
    let known: RefreshTarget | undefined = intent.found;
    let isDurable = false;
    for (let commits = 0; ; ) {
      const leave = pace.enter();
      try {
        const now = known ?? (await read(ref));
        known = undefined;
        const isOurs = isDurable && credentials !== undefined && isSame(now, credentials);
        if (!isOurs && !isSame(now, found.known.credentials)) return isDurable ? "written" : "overtaken";
        if (!isOurs && isDead(now) && !wasDead) return "refused";
        // The lease was lost, and another process has sent a request since. Its result is newer, so wait for that
        // first.
        const open = now.known.record?.value.intent?.attemptId ?? intent.attemptId;
        if (open !== intent.attemptId && !isOurs && performance.now() < until && !isOver()) {
          leave();
          // If that process is gone, its attempt will never have a result.
          if ((await findLease(ref)) === undefined) {
            await sleep(lookAgainMs);
            continue;
          }
        }
        if (commits > 1 && !isDurable && credentials !== undefined) {
          await store.commit([health.renewed(now.known, credentials)]);
          isDurable = true;
          onDurable();
          continue;
        }
        const { changes, conditions } = await decide(now);
        // A lost lease must not prevent storing the response: only the first commits depend on the lease.
        const released = commits > 1 ? [] : kept.lease.releasing();
        commits += 1;
        await store.commit([...changes, ...released], conditions);
        if (released.length > 0) kept.onReleased();
        return "written";
      } catch (error) {
        if (error instanceof StaleWrite) continue;
        // The connection was deleted in the meantime.
        if (error instanceof Fault) return "overtaken";
        if (!isOfTheStore(error) || isOver()) throw error;
        log.warn("what came of a renewal cannot be written down yet", { ...about(ref), err: error });
        onStoreTrouble(error);
        leave();
        await sleep(storeRetryMs);
      } finally {
        leave();
      }
    }
  }

  return attempt;
}

/**
 * Whether to retry the commit. Includes a missing seal key, introduced by a re-seal: the response cannot be had again.
 */
const isOfTheStore = (error: unknown): boolean => error instanceof StoreUnavailable || error instanceof SealKeyMissing;

const isDead = ({ known: { record } }: RefreshTarget): boolean =>
  record !== undefined && record.value.deadReason !== "";

/** Compares by value: a re-seal rewrites the same credentials. */
export const isSame = ({ known }: RefreshTarget, seen: Credentials): boolean =>
  equals(CredentialsSchema, known.credentials, seen);

/** Other changes of the connection that the response reports. */
function patchOf({ connectionConfig, metadata, grantedScopes, missingScopes: lacked }: Connection, answer: Tokens) {
  return {
    ...(answer.scopes === undefined
      ? {}
      : {
          grantedScopes: [...answer.scopes],
          missingScopes: missingScopes([...grantedScopes, ...lacked], answer.scopes),
        }),
    ...(isEmpty(answer.connectionConfig)
      ? {}
      : { connectionConfig: { ...connectionConfig, ...answer.connectionConfig } }),
    ...(isEmpty(answer.metadata) ? {} : { metadata: { ...metadata, ...answer.metadata } }),
  };
}

/** Our own codes, for requests that could not even be made. */
const ofOneConnection = new Set(["address_unbound", "client_unusable"]);

export const breakerKey = ({ environment, integration }: ConnectionRef): string => `${environment}\0${integration}`;
const about = ({ environment, integration, id }: ConnectionRef) => ({ environment, integration, connection: id });
const isEmpty = (fields: Readonly<Record<string, unknown>>): boolean => Object.keys(fields).length === 0;
