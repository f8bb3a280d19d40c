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
import type { ConnectionHealth, ConnectionSnapshot, HealthUpdate } from "../connections/health.ts";
import { isForOperator } from "../connections/refresh-bookkeeping.ts";
import type { TokenEndpoint, TokenRequest } from "../tokens/token-endpoint.ts";
import type { GrantCount } from "./grant-count.ts";
import type { RefreshBreaker } from "./refresh-breaker.ts";
import { misconfigured, reauthorize, unavailable } from "./refresh-faults.ts";
import { type KeptLease, keepLease, type RefreshLeaseTimes } from "./refresh-lease.ts";
import type { RefreshPace } from "./refresh-pace.ts";
import { type Renewal, renewalOf, renewed } from "./refresh-timing.ts";
import { tokenClient } from "./token-client.ts";

/** A connection as it was read, with what its renewal takes. */
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
  /** As it was found with the rest: taken in the commit of the intent. */
  readonly free: FreeLease;
  readonly log: LogWriter;
  /** The credentials may still be good: the renewal is told of in a log. */
  readonly isForced: boolean;
}

/** Written down, and with what there was then. */
interface RefreshIntent {
  readonly attemptId: string;
  readonly found: RefreshTarget;
  readonly revision: number;
}

/** An attempt that has asked. */
interface SentRefresh {
  readonly trying: Attempt;
  readonly kept: KeptLease;
  readonly intent: RefreshIntent;
}

export interface RefreshRun extends RefreshCallbacks {
  /** From now on the provider may have acted. */
  readonly onSent: () => void;
}

/** Nobody need wait for the end of a flight once one of these was called. */
export interface RefreshCallbacks {
  /** There are new credentials, and no crash takes them away any more. */
  readonly onDurable: () => void;
  /** What came of it cannot be written down yet. */
  readonly onStoreTrouble: (error: unknown) => void;
}

interface AttemptsOptions {
  readonly read: (ref: ConnectionRef) => Promise<RefreshTarget>;
  /** Undefined while another process renews the connection. */
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
  /** Whatever is still under way is given up. */
  readonly isOver: () => boolean;
  readonly world: World;
}

/** A renewal: noted, asked for, and written down. `again`: something else has changed the connection meanwhile. */
export type RunAttempt = (trying: Attempt) => Promise<"done" | "again">;

/** A call has 60 seconds, and may be made twice; whoever waits longer than that is told to come again. */
export const patienceMs = 75_000;
/** While somebody else is at it. */
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
    // It rests on what was read a moment ago: were it stale, or the lease taken, the commit would be refused.
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
      // After a pause the refresh token may have been used by another process: it must not be sent a second time.
      if (!(await kept.isOurs())) return "again";
      trying.onSent();
      const mayGoAgain = renewal.grant.type === "refresh_token" && intent === first;
      // A connection that was kept may end under it: then it goes once more, and over a new one.
      const answer = await ask(trying, intent.found, { mayFollow: mayGoAgain });
      if (!(answer instanceof TokenFailure)) {
        breaker.noteSuccess(breakerKey(ref));
        return write({ trying, kept, intent }, answer, trying.found.known.credentials);
      }
      writer.warn("the token endpoint gave no token", { failure: answer.kind, code: answer.code });
      // Whether it was acted on is not known: once more at once, while the provider may still forgive it.
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

  /** Durable before anything is sent: whoever finds it knows that the outcome is not known. */
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
      // How large it is nobody asks.
      const stored = record && { value: record, revision, bytes: 0 };
      return { attemptId, revision, found: { ...now, known: { ...now.known, record: stored } } };
    } catch (error) {
      // Somebody else is at it, or other credentials came, or the same were sealed anew: it is looked at again.
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

  /** Nothing stands between an answer and its commit, and while the store takes none it is tried on. */
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
   * This process was paused with its request under way, and another one has used the same refresh token since and been
   * refused. The provider may have withdrawn all that came of the token, or the late answer may be the one that is
   * good: only a renewal with the late answer's own token tells, and nothing is said before that.
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

  /** Rejects with what callers are told; `again`: the failure is older than what there is now. */
  async function noteFailure(asked: SentRefresh, failure: TokenFailure): Promise<"again"> {
    const { ref, log: writer } = asked.trying;
    let reason = failure.code;
    const outcome = await commitNoted(asked, async ({ known, integration, provider }) => {
      // This one is among them: it has only now been found dead.
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
    // Other credentials have been stored, or a newer attempt was refused: this failure says nothing of what there is.
    if (outcome !== "written") {
      count("overtaken");
      return "again";
    }
    const { kind, code, retryAfterMs } = failure;
    // What one connection's own address or client leads to says nothing of the others.
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
   * Decided anew as often as something else of the connection changes; over when its credentials have. Where others
   * write to the connection without a pause, `credentials` are written by themselves first.
   */
  async function commitNoted(
    { trying, kept, intent }: SentRefresh,
    decide: (now: RefreshTarget) => HealthUpdate | Promise<HealthUpdate>,
    credentials?: Credentials,
  ): Promise<"written" | "overtaken" | "refused"> {
    const { ref, found, onDurable, onStoreTrouble } = trying;
    /** A dead grant is asked for once more by `confirm` alone. */
    const wasDead = isDead(found);
    const until = performance.now() + patienceMs;
    /** As the intent left it. Were it otherwise by now, the commit would be refused, and only then is it read. */
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
        // The lease was lost, and another process has asked since: its result is newer, and comes first.
        const open = now.known.record?.value.intent?.attemptId ?? intent.attemptId;
        if (open !== intent.attemptId && !isOurs && performance.now() < until && !isOver()) {
          leave();
          // Where that process is gone, its attempt will never have a result.
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
        // A lease that was lost must not keep an answer from being written down: only the first times with it.
        const released = commits > 1 ? [] : kept.lease.releasing();
        commits += 1;
        await store.commit([...changes, ...released], conditions);
        if (released.length > 0) kept.onReleased();
        return "written";
      } catch (error) {
        if (error instanceof StaleWrite) continue;
        // Deleted meanwhile.
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

/** Also where a key is missing that a re-seal has brought into use: what is held here can be had nowhere else. */
const isOfTheStore = (error: unknown): boolean => error instanceof StoreUnavailable || error instanceof SealKeyMissing;

const isDead = ({ known: { record } }: RefreshTarget): boolean =>
  record !== undefined && record.value.deadReason !== "";

/** A re-seal writes the same credentials anew. */
export const isSame = ({ known }: RefreshTarget, seen: Credentials): boolean =>
  equals(CredentialsSchema, known.credentials, seen);

/** What else an answer says of a connection. */
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

/** Words of ours, for requests that could not even be made. */
const ofOneConnection = new Set(["address_unbound", "client_unusable"]);

export const breakerKey = ({ environment, integration }: ConnectionRef): string => `${environment}\0${integration}`;
const about = ({ environment, integration, id }: ConnectionRef) => ({ environment, integration, connection: id });
const isEmpty = (fields: Readonly<Record<string, unknown>>): boolean => Object.keys(fields).length === 0;
