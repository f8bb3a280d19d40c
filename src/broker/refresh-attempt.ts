import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { create, equals } from "@bufbuild/protobuf";
import { TokenFailure, type Tokens } from "../auth/tokens.ts";
import { Fault } from "../base/fault.ts";
import type { World } from "../base/world.ts";
import { missingScopes } from "../core/granted-scopes.ts";
import { isForOperator } from "../core/refresh-bookkeeping.ts";
import type { RefreshBreaker } from "../core/refresh-breaker.ts";
import { type Renewal, renewed } from "../core/renewal.ts";
import { tokenClient } from "../core/token-client.ts";
import type { Connection, ConnectionRef } from "../gen/latchkey/v1/connection_pb.ts";
import { type Credentials, CredentialsSchema } from "../gen/latchkey/v1/credentials_pb.ts";
import type { Integration, IntegrationSecrets } from "../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";
import { type Change, type Condition, StaleWrite, type Store, StoreUnavailable } from "../store/contract.ts";
import type { FreeLease, Lease } from "../store/leases.ts";
import { SealKeyMissing } from "../store/seal-key.ts";
import type { ConnectionHealth, Known, Noted } from "./health.ts";
import type { LiveGrants } from "./live-grants.ts";
import type { LogWriter } from "./logs.ts";
import { misconfigured, reauthorize, unavailable } from "./refresh-faults.ts";
import type { RefreshPace } from "./refresh-pace.ts";
import type { TokenEndpoint, TokenRequest } from "./token-endpoint.ts";

/** A connection as it was read, with what its renewal takes. */
export interface Found {
  readonly known: Known;
  readonly integration: Integration;
  readonly secrets: IntegrationSecrets | undefined;
  readonly provider: Provider;
}

export interface Attempt extends Course {
  readonly ref: ConnectionRef;
  readonly found: Found;
  readonly renewal: Renewal;
  /** As it was found with the rest: taken in the commit of the intent. */
  readonly free: FreeLease;
  readonly log: LogWriter;
  readonly isForced: boolean;
}

/** Written down, and with what there was then. */
interface Intent {
  readonly attemptId: string;
  readonly found: Found;
  readonly revision: number;
}

/** A lease that is looked after until the attempt is over. */
interface KeptLease {
  readonly lease: Lease;
  /** It was given back together with what came of it. */
  onReleased(): void;
  end(): Promise<void>;
}

/** An attempt that has asked. */
interface Sent {
  readonly trying: Attempt;
  readonly kept: KeptLease;
  readonly intent: Intent;
}

export interface Course extends Onlookers {
  /** From now on the provider may have acted. */
  readonly onSent: () => void;
}

/** Nobody need wait for the end of a flight once one of these was called. */
export interface Onlookers {
  /** There are new credentials, and no crash takes them away any more. */
  readonly onDurable: () => void;
  /** What came of it cannot be written down yet. */
  readonly onStoreTrouble: (error: unknown) => void;
}

interface AttemptsOptions {
  readonly read: (ref: ConnectionRef) => Promise<Found>;
  readonly store: Store;
  readonly health: ConnectionHealth;
  readonly tokens: TokenEndpoint;
  readonly grants: LiveGrants;
  readonly breaker: RefreshBreaker;
  readonly pace: RefreshPace;
  readonly leaseMs: number;
  /** Nothing new is begun. */
  readonly isClosing: () => boolean;
  /** Whatever is still under way is given up. */
  readonly isOver: () => boolean;
  readonly world: World;
}

/** A renewal: noted, asked for, and written down. `again`: something changed before anything was sent. */
export type RunAttempt = (trying: Attempt) => Promise<"done" | "again">;

/** A call has 60 seconds, and may be made twice; whoever waits longer than that is told to come again. */
export const patienceMs = 75_000;
/** While somebody else is at it. */
export const lookAgainMs = 100;
const storeRetryMs = 1_000;

export function createAttempts(options: AttemptsOptions): RunAttempt {
  const { read, store, health, tokens, grants, breaker, pace, leaseMs, isClosing, isOver, world } = options;
  const { metrics, log } = world;
  const count = (outcome: string) => metrics.refreshes.inc({ outcome });

  async function attempt(trying: Attempt): Promise<"done" | "again"> {
    const { found, free } = trying;
    // It rests on what was read a moment ago: were it stale, or the lease taken, the commit would be refused.
    const intent = await noteIntent(trying, found, { changes: free.changes });
    if (intent === undefined) return "again";
    const kept = keep(free.taken(intent.revision));
    try {
      return await askUnder({ trying, kept, intent });
    } finally {
      await kept.end();
    }
  }

  async function askUnder({ trying, kept, intent: first }: Sent): Promise<"done" | "again"> {
    const { ref, renewal, log: writer } = trying;
    for (let intent = first; ; ) {
      trying.onSent();
      const mayGoAgain = renewal.grant.type === "refresh_token" && intent === first;
      // A connection that was kept may end under it: then it goes once more, and over a new one.
      const answer = await ask(trying, intent.found, { mayFollow: mayGoAgain });
      if (!(answer instanceof TokenFailure)) {
        breaker.noteSuccess(breakerKey(ref));
        await write({ trying, kept, intent }, answer);
        return "done";
      }
      writer.warn("the token endpoint gave no token", { failure: answer.kind, code: answer.code });
      // Whether it was acted on is not known: once more at once, while the provider may still forgive it.
      if (answer.kind === "uncertain" && mayGoAgain) {
        const second = await noteIntent(trying, await read(ref), { conditions: [kept.lease.fence] });
        if (second === undefined) return "again";
        intent = second;
        continue;
      }
      await noteFailure({ trying, kept, intent }, answer);
      return "done";
    }
  }

  function keep(lease: Lease): KeptLease {
    let isReleased = false;
    const keeping = setInterval(() => {
      // Lost: the answer still counts, since it is written over nothing but what it replaces.
      lease.renew().catch((err: unknown) => log.debug("a lease was not renewed", { err }));
    }, leaseMs / 3);
    return {
      lease,
      onReleased() {
        isReleased = true;
      },
      async end() {
        clearInterval(keeping);
        if (!isReleased) await lease.release().catch((err: unknown) => log.debug("a lease was not released", { err }));
      },
    };
  }

  interface With {
    readonly changes?: readonly Change[];
    readonly conditions?: readonly Condition[];
  }

  /** Durable before anything is sent: whoever finds it knows that the outcome is not known. */
  async function noteIntent({ found, renewal }: Attempt, now: Found, more: With): Promise<Intent | undefined> {
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
    found: Found,
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
  async function write(asked: Sent, answer: Tokens): Promise<void> {
    const { intent, trying } = asked;
    const { ref, found, log: writer, isForced: isAskedFor } = trying;
    const credentials = create(CredentialsSchema, { kind: renewed(found.known.credentials, answer) });
    const decide = ({ known, integration, provider }: Found) => {
      const patch = patchOf(known.connection.value, answer);
      const own = tokenClient({ ...intent.found, credentials });
      return health.noteSuccess(known, {
        ...{ credentials, integration, provider, log: writer, isAskedFor, patch },
        tokenClient: own,
      });
    };
    const outcome = await commitNoted(asked, decide, credentials);
    count(outcome === "written" ? "renewed" : "overtaken");
    if (outcome === "overtaken") {
      log.info("renewed credentials were let go: others had come in their place", about(ref));
    }
  }

  async function noteFailure(asked: Sent, failure: TokenFailure): Promise<void> {
    const { ref, log: writer } = asked.trying;
    let reason = failure.code;
    const outcome = await commitNoted(asked, async ({ known, integration, provider }) => {
      // This one is among them: it has only now been found dead.
      const liveGrants =
        failure.kind === "grant_dead" ? await grants.count(known.connection.value, provider) : undefined;
      const noted = health.noteFailure(known, {
        failure,
        log: writer,
        integration,
        provider,
        ...(liveGrants !== undefined && { liveGrants }),
      });
      reason = noted.record?.deadReason || failure.code;
      return noted;
    });
    // Somebody has authorised it anew meanwhile: what was refused is not what there is.
    if (outcome === "overtaken") return;
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
    { trying, kept, intent }: Sent,
    decide: (now: Found) => Noted | Promise<Noted>,
    credentials?: Credentials,
  ): Promise<"written" | "overtaken"> {
    const { ref, found, onDurable, onStoreTrouble } = trying;
    const until = performance.now() + patienceMs;
    /** As the intent left it. Were it otherwise by now, the commit would be refused, and only then is it read. */
    let known: Found | undefined = intent.found;
    let isDurable = false;
    for (let commits = 0; ; ) {
      const leave = pace.enter();
      try {
        const now = known ?? (await read(ref));
        known = undefined;
        const isOurs = isDurable && credentials !== undefined && isSame(now, credentials);
        if (!isOurs && !isSame(now, found.known.credentials)) return isDurable ? "written" : "overtaken";
        // The lease was lost, and somebody else has asked since: what that one is given is newer, and comes first.
        const open = now.known.record?.value.intent?.attemptId ?? intent.attemptId;
        if (open !== intent.attemptId && !isOurs && performance.now() < until && !isClosing()) {
          leave();
          await sleep(lookAgainMs);
          continue;
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

/** A re-seal writes the same credentials anew. */
export const isSame = ({ known }: Found, seen: Credentials): boolean =>
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
