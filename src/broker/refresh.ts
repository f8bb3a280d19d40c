import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { create, equals } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { TokenFailure, type Tokens } from "../auth/tokens.ts";
import { Fault } from "../base/fault.ts";
import { createTurns } from "../base/turns.ts";
import type { World } from "../base/world.ts";
import { credentialsExpireAt } from "../core/credentials-expiry.ts";
import { coolDownMs, isForOperator, nextAttemptMs } from "../core/refresh-bookkeeping.ts";
import { type Closed, createRefreshBreaker } from "../core/refresh-breaker.ts";
import { type Renewal, renewalOf, renewed } from "../core/renewal.ts";
import { tokenClient } from "../core/token-client.ts";
import type { Connection, ConnectionRef } from "../gen/latchkey/v1/connection_pb.ts";
import { type Credentials, CredentialsSchema } from "../gen/latchkey/v1/credentials_pb.ts";
import type { Integration, IntegrationSecrets } from "../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";
import { StaleWrite, type Store, StoreUnavailable } from "../store/contract.ts";
import { createLeases, type Lease } from "../store/leases.ts";
import { SealKeyMissing } from "../store/seal-key.ts";
import { refreshLease } from "./collections.ts";
import type { ConnectionHealth, Known, Noted } from "./health.ts";
import type { Integrations } from "./integrations.ts";
import type { LiveGrants } from "./live-grants.ts";
import type { LogWriter } from "./logs.ts";
import type { Providers } from "./providers.ts";
import type { TokenEndpoint } from "./token-endpoint.ts";

/**
 * Has credentials renewed: one attempt at a time for each connection, in this process by one promise that all who ask
 * share, among replicas by a lease. What came is written down before anybody uses it, and written only over what it
 * replaces. A provider that rotates refresh tokens forgives no mistake here.
 */
export interface Refresher {
  /** Resolves once the credentials are others than `seen`. Rejects with a Fault that says why they are not. */
  renew(ref: ConnectionRef, asked: Asked): Promise<void>;
  /** What was learned of an integration may be wrong: it has changed. */
  forgive(environment: string, integration: string): void;
  /** Attempts that are under way are waited for: what a provider has given is written down. */
  close(): Promise<void>;
}

export interface Asked {
  /** What whoever asks has. Compared by what it holds: a re-seal writes the same credentials anew. */
  readonly seen: Credentials;
  /** Somebody asked for it, though they may be good: at most once in a while. */
  readonly isForced: boolean;
}

interface RefresherOptions {
  /** For how long an attempt is left alone after its last sign of life; half a minute unless said. */
  readonly leaseMs?: number | undefined;
  readonly store: Store;
  readonly health: ConnectionHealth;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly tokens: TokenEndpoint;
  readonly grants: LiveGrants;
  readonly world: World;
}

/** Held around the call and the write alone, and renewed three times in its length while they last. */
const usualLeaseMs = 30_000;
/** A call has 60 seconds, and may be made twice; whoever waits longer than that is told to come again. */
const patienceMs = 75_000;
/**
 * Of one integration. A thousand that run out in one second would hold up every other call; and of a token endpoint
 * that is down, those who wait learn from the first that failed.
 */
const mostAtOnce = 32;
/** While another replica has it. */
const lookAgainMs = 100;
const storeRetryMs = 1_000;
const closeWithinMs = 10_000;

/** A connection as it was read, with what its renewal takes. */
interface Found {
  readonly known: Known;
  readonly integration: Integration;
  readonly secrets: IntegrationSecrets | undefined;
  readonly provider: Provider;
}

/** An attempt under way. All who ask share one promise, and one patience. */
interface Flight {
  /** Whoever has others than these is not helped by it. */
  readonly seen: Credentials;
  readonly flown: Promise<void>;
  readonly shared: Promise<void>;
  /** Rejects when what came of it cannot be written down yet. */
  readonly trouble: Promise<never>;
}

interface Attempt extends Course {
  readonly ref: ConnectionRef;
  readonly found: Found;
  readonly renewal: Renewal;
  readonly lease: Lease;
  readonly log: LogWriter;
  readonly isForced: boolean;
  /** The lease was given back together with what came of it. */
  readonly onReleased: () => void;
}

/** Written down, and with what was read then. */
interface Intent {
  readonly attemptId: string;
  readonly found: Found;
}

/** An attempt that has asked. */
interface Sent {
  readonly trying: Attempt;
  readonly intent: Intent;
}

/** Nobody need wait for the end of a flight once one of these was called. */
interface Course {
  /** There are new credentials, and no crash takes them away any more. */
  readonly onDurable: () => void;
  /** What came of it cannot be written down yet. */
  readonly onStoreTrouble: (error: unknown) => void;
}

export function createRefresher(options: RefresherOptions): Refresher {
  const { store, health, integrations, providers, tokens, grants, world, leaseMs = usualLeaseMs } = options;
  const { metrics, log } = world;
  const leases = createLeases(store);
  const breaker = createRefreshBreaker();
  const flights = new Map<string, Flight>();
  const turns = createTurns(mostAtOnce);
  let isClosing = false;
  /** Whatever is still under way is given up. */
  let isOver = false;

  async function read(ref: ConnectionRef): Promise<Found> {
    const { environment, integration: key, id } = ref;
    const at = { environment, key };
    const [known, { value: integration }, secrets] = await Promise.all([
      health.read(ref),
      integrations.get(at),
      integrations.secretsOf(at),
    ]);
    if (known === undefined) {
      throw new Fault("unknown_connection", `there is no connection "${id}" of the integration "${key}"`);
    }
    return { known, integration, secrets, provider: providers.find(known.connection.value.provider) };
  }

  async function flyInTurn(ref: ConnectionRef, asked: Asked, course: Course): Promise<void> {
    const giveBack = await turns(breakerKey(ref));
    try {
      await fly(ref, asked, course);
    } finally {
      giveBack();
    }
  }

  async function fly(ref: ConnectionRef, { seen, isForced }: Asked, course: Course): Promise<void> {
    const until = performance.now() + patienceMs;
    for (;;) {
      const found = await read(ref);
      if (!isSame(found, seen) || isJustRenewed(found, { isForced, now: world.now() })) return;
      requireTryable(ref, found, isForced);
      requireOpen(breaker.closedUntil(breakerKey(ref), world.now()));
      const lease = await leases.take(refreshLease(ref), leaseMs);
      if (lease !== undefined) {
        if ((await underLease({ ref, asked: { seen, isForced }, lease, course })) === "done") return;
        continue;
      }
      // Another replica is at it, or was when it died.
      if (performance.now() > until || isClosing) throw unavailable("another replica is renewing it", 1);
      await sleep(lookAgainMs * (0.5 + Math.random()));
    }
  }

  /** Throws what whoever asks is told, when nobody should ask the provider now. */
  function requireTryable(ref: ConnectionRef, { known, integration, provider }: Found, isForced: boolean) {
    const { credentials } = known;
    const record = known.record?.value;
    if (record !== undefined && record.deadReason !== "") throw reauthorize(ref, record.deadReason);
    if (renewalOf({ credentials, provider, integration }) === undefined) throw reauthorize(ref, "credentials_expired");
    const now = world.now();
    const due = nextAttemptMs(record, { isForced, nowMs: now });
    if (record === undefined || due === undefined || due <= now) return;
    if (isForOperator(record.lastFailure)) {
      // Changed since it was refused: somebody has mended it, and need not wait.
      const changedAt = integration.updatedAt === undefined ? 0 : timestampMs(integration.updatedAt);
      if (record.lastFailedAt !== undefined && changedAt > timestampMs(record.lastFailedAt)) return;
      throw misconfigured(record.lastCode);
    }
    const lastFailure = record.failures === 0 ? "it was renewed a moment ago" : `renewal fails (${record.lastCode})`;
    throw unavailable(lastFailure, (due - now) / 1_000);
  }

  function requireOpen(closed: Closed | undefined): void {
    if (closed !== undefined) throw faultOfClosed(closed, world.now());
  }

  interface Leased extends Pick<Attempt, "ref" | "lease"> {
    readonly asked: Asked;
    readonly course: Course;
  }

  /** `again`: something of the connection changed before anything was sent. */
  async function underLease({ ref, asked, lease, course }: Leased): Promise<"done" | "again"> {
    const { seen, isForced } = asked;
    let keeping: NodeJS.Timeout | undefined;
    let isReleased = false;
    const onReleased = () => {
      isReleased = true;
    };
    try {
      // What was read before the lease was taken may have been tried by whoever had it, well or in vain.
      const found = await read(ref);
      const { integration, secrets, provider } = found;
      const { credentials } = found.known;
      if (!isSame(found, seen) || isJustRenewed(found, { isForced, now: world.now() })) return "done";
      requireTryable(ref, found, isForced);
      const renewal = renewalOf({ credentials, provider, integration });
      if (renewal === undefined) return "done";
      keeping = setInterval(() => {
        // Lost: the answer still counts, since it is written over nothing but what it replaces.
        lease.renew().catch((err: unknown) => log.debug("a lease was not renewed", { err }));
      }, leaseMs / 3);
      const writer = health.beginLog({ operation: "auth.refresh", ref, credentials, secrets });
      const probe = breaker.enter(breakerKey(ref), world.now());
      if ("closed" in probe) throw faultOfClosed(probe.closed, world.now());
      try {
        return await attempt({ ref, found, renewal, lease, log: writer, isForced, onReleased, ...course });
      } finally {
        probe.leave();
      }
    } finally {
      clearInterval(keeping);
      if (!isReleased) await lease.release().catch((err: unknown) => log.debug("a lease was not released", { err }));
    }
  }

  async function attempt(trying: Attempt): Promise<"done" | "again"> {
    const { ref, renewal, log: writer } = trying;
    for (let isSecond = false; ; isSecond = true) {
      // The first rests on what was read a moment ago: were it stale, the commit would be refused.
      const intent = await noteIntent(trying, isSecond ? await read(ref) : trying.found);
      if (intent === undefined) return "again";
      const answer = await ask(trying, intent.found);
      if (!(answer instanceof TokenFailure)) {
        breaker.noteSuccess(breakerKey(ref));
        await write({ trying, intent }, answer);
        return "done";
      }
      writer.warn("the token endpoint gave no token", { failure: answer.kind, code: answer.code });
      // Whether it was acted on is not known: once more at once, while the provider may still forgive it.
      if (answer.kind === "uncertain" && !isSecond && renewal.grant.type === "refresh_token") continue;
      await noteFailure({ trying, intent }, answer);
      return "done";
    }
  }

  /** Durable before anything is sent: whoever finds it knows that the outcome is not known. */
  async function noteIntent({ found, renewal, lease }: Attempt, now: Found): Promise<Intent | undefined> {
    if (!isSame(now, found.known.credentials)) return undefined;
    const attemptId = randomUUID();
    const { changes, conditions } = health.noteIntent(now.known, { attemptId, token: renewal.spent });
    try {
      await store.commit(changes, [...conditions, lease.fence]);
      return { attemptId, found: now };
    } catch (error) {
      // Somebody else is at it, or other credentials came, or the same were sealed anew: it is looked at again.
      if (error instanceof StaleWrite) return undefined;
      throw error;
    }
  }

  async function ask({ renewal }: Attempt, found: Found): Promise<Tokens | TokenFailure> {
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
    { trying, intent }: Sent,
    decide: (now: Found) => Noted | Promise<Noted>,
    credentials?: Credentials,
  ): Promise<"written" | "overtaken"> {
    const { ref, found, lease, onReleased, onDurable, onStoreTrouble } = trying;
    const until = performance.now() + patienceMs;
    let isDurable = false;
    for (let isFirst = true; ; ) {
      try {
        const now = await read(ref);
        const isOurs = isDurable && credentials !== undefined && isSame(now, credentials);
        if (!isOurs && !isSame(now, found.known.credentials)) return isDurable ? "written" : "overtaken";
        // The lease was lost, and somebody else has asked since: what that one is given is newer, and comes first.
        const open = now.known.record?.value.intent?.attemptId ?? intent.attemptId;
        if (open !== intent.attemptId && !isOurs && performance.now() < until && !isClosing) {
          await sleep(lookAgainMs);
          continue;
        }
        if (!isFirst && !isDurable && credentials !== undefined) {
          await store.commit([health.renewed(now.known, credentials)]);
          isDurable = true;
          onDurable();
          continue;
        }
        const { changes, conditions } = await decide(now);
        // A lease that was lost must not keep an answer from being written down: only the first time with it.
        const released = isFirst ? lease.releasing() : [];
        isFirst = false;
        await store.commit([...changes, ...released], conditions);
        if (released.length > 0) onReleased();
        return "written";
      } catch (error) {
        if (error instanceof StaleWrite) continue;
        // Deleted meanwhile.
        if (error instanceof Fault) return "overtaken";
        if (!isOfTheStore(error) || isOver) throw error;
        log.warn("what came of a renewal cannot be written down yet", { ...about(ref), err: error });
        onStoreTrouble(error);
        await sleep(storeRetryMs);
      }
    }
  }

  const isNothingToUs = (err: unknown) => log.debug("other credentials were not renewed", { err });
  const count = (outcome: string) => metrics.refreshes.inc({ outcome });

  return {
    async renew(ref, asked) {
      const key = `${ref.environment}\0${ref.integration}\0${ref.id}`;
      for (let known = flights.get(key); known !== undefined; known = flights.get(key)) {
        if (equals(CredentialsSchema, known.seen, asked.seen)) return known.shared;
        // It renews what is not there any more: what comes of it is nothing to us.
        await patiently(known.flown.catch(isNothingToUs), known.trouble);
      }
      const { promise: durable, resolve: onDurable } = Promise.withResolvers<void>();
      const { promise: trouble, reject: onStoreTrouble } = Promise.withResolvers<never>();
      const flown = flyInTurn(ref, asked, { onDurable, onStoreTrouble }).finally(() => flights.delete(key));
      const shared = patiently(Promise.race([flown, durable]), trouble);
      flights.set(key, { seen: asked.seen, flown, shared, trouble });
      return shared;
    },
    forgive: (environment, integration) => breaker.forget(`${environment}\0${integration}`),
    async close() {
      isClosing = true;
      await Promise.race([
        Promise.allSettled([...flights.values()].map(({ flown }) => flown)),
        sleep(closeWithinMs, undefined, { ref: false }),
      ]);
      isOver = true;
    },
  };
}

/** Whoever waits is told to come again; what is under way goes on. */
async function patiently(flight: Promise<void>, trouble: Promise<never>): Promise<void> {
  const late = AbortSignal.timeout(patienceMs);
  const { promise, reject } = Promise.withResolvers<void>();
  const onLate = () => reject(unavailable("the provider takes long", 5));
  late.addEventListener("abort", onLate, { once: true });
  try {
    await Promise.race([flight, trouble, promise]);
  } finally {
    late.removeEventListener("abort", onLate);
  }
}

/** Also where a key is missing that a re-seal has brought into use: what is held here can be had nowhere else. */
const isOfTheStore = (error: unknown): boolean => error instanceof StoreUnavailable || error instanceof SealKeyMissing;

interface Now {
  readonly isForced: boolean;
  readonly now: number;
}

/** What was got a moment ago is what there is to be had, whoever doubts it, and though it came with no time to live. */
function isJustRenewed({ known: { record, credentials } }: Found, { isForced, now }: Now): boolean {
  if (record === undefined || record.value.failures > 0 || record.value.lastSucceededAt === undefined) return false;
  const gotAt = timestampMs(record.value.lastSucceededAt);
  const expiresAt = credentialsExpireAt(credentials);
  const wasBornDead = expiresAt !== undefined && timestampMs(expiresAt) <= gotAt + bornDeadMs;
  return (isForced || wasBornDead) && now >= gotAt && now < gotAt + coolDownMs;
}

/** Between the sending of the request that a token's life is counted from, and the token's being written down. */
const bornDeadMs = 1_000;

const isSame = ({ known }: Found, seen: Credentials): boolean => equals(CredentialsSchema, known.credentials, seen);

/** What else an answer says of a connection. */
function patchOf({ connectionConfig, metadata }: Connection, answer: Tokens) {
  return {
    ...(answer.scopes === undefined ? {} : { grantedScopes: [...answer.scopes] }),
    ...(isEmpty(answer.connectionConfig)
      ? {}
      : { connectionConfig: { ...connectionConfig, ...answer.connectionConfig } }),
    ...(isEmpty(answer.metadata) ? {} : { metadata: { ...metadata, ...answer.metadata } }),
  };
}

/** Words of ours, for requests that could not even be made. */
const ofOneConnection = new Set(["address_unbound", "client_unusable"]);

const breakerKey = ({ environment, integration }: ConnectionRef): string => `${environment}\0${integration}`;
const about = ({ environment, integration, id }: ConnectionRef) => ({ environment, integration, connection: id });
const isEmpty = (fields: Readonly<Record<string, unknown>>): boolean => Object.keys(fields).length === 0;

function unavailable(why: string, retryAfterSeconds: number): Fault {
  return new Fault("refresh_unavailable", `the credentials are due and could not be renewed now: ${why}`, {
    retryAfterSeconds: Math.max(1, Math.ceil(retryAfterSeconds)),
  });
}

const reauthorize = ({ id }: ConnectionRef, reason: string) =>
  new Fault("reauthorization_required", `the end user must authorise "${id}" again (${reason})`);

const misconfigured = (code: string) =>
  new Fault("integration_misconfigured", `the provider refuses the integration's OAuth app (${code})`);

const faultOfClosed = ({ reason, code, untilMs }: Closed, nowMs: number): Fault =>
  reason === "client" ? misconfigured(code) : unavailable(`renewal fails (${code})`, (untilMs - nowMs) / 1_000);
