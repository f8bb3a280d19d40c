import { setTimeout as sleep } from "node:timers/promises";
import { equals } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { createLimiter } from "../../base/limiter.ts";
import type { World } from "../../base/world.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import { type Credentials, CredentialsSchema } from "../../gen/latchkey/v1/credentials_pb.ts";
import { type Restoration, type Store, StoreUnavailable } from "../../store/contract.ts";
import { type HolderWatch, watchHolder } from "../../store/lease-holder-watch.ts";
import { createLeases, type FreeLease } from "../../store/leases.ts";
import { refreshLease } from "../connections/connection-collections.ts";
import { credentialsExpireAt } from "../connections/credentials-expiry.ts";
import type { ConnectionHealth } from "../connections/health/health.ts";
import {
  areShortLived,
  coolDownMs,
  isForOperator,
  nextAttemptMs,
  pauseAfterSuccessMs,
} from "../connections/health/refresh-bookkeeping.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { Providers } from "../setup/providers.ts";
import type { TokenEndpoint } from "../tokens/token-endpoint.ts";
import type { GrantCount } from "./grant-count.ts";
import {
  breakerKey,
  createAttempts,
  isSame,
  lookAgainMs,
  patienceMs,
  type RefreshCallbacks,
  type RefreshRun,
  type RefreshTarget,
} from "./refresh-attempt.ts";
import { type BreakerState, createRefreshBreaker } from "./refresh-breaker.ts";
import { faultOfClosed, misconfigured, reauthorize, unavailable } from "./refresh-faults.ts";
import { refreshLeaseTimes } from "./refresh-lease.ts";
import { createRefreshPace } from "./refresh-pace.ts";
import { renewalOf } from "./refresh-timing.ts";

/**
 * Refreshes credentials, one attempt at a time for each connection. In one process, all callers share a promise; among
 * replicas, a lease decides. New credentials are stored before anybody uses them, and replace only the ones they were
 * requested for. A provider that rotates refresh tokens forgives no mistake here.
 */
export interface Refresher {
  /** Resolves once the stored credentials differ from `seen`. Rejects with a Fault that gives the reason. */
  renew(ref: ConnectionRef, asked: RefreshRequest): Promise<void>;
  /** Resets the breaker of an integration, since the integration has changed. */
  forgive(environment: string, integration: string): void;
  /** Waits for running attempts, so that tokens from the provider are stored. */
  close(): Promise<void>;
}

export interface RefreshRequest {
  /** The caller's credentials. Compared by value: re-sealing rewrites equal ones. */
  readonly seen: Credentials;
  readonly why: RenewalReason;
}

/**
 * `due`: the credentials have expired, or nearly. `requested`: a caller wants new ones now. `refused`: the provider
 * refused the credentials. A `refused` refresh runs at most once in 30 s, since the provider may refuse the next ones
 * too.
 */
export type RenewalReason = "due" | "requested" | "refused";

interface RefresherOptions {
  /** How long a paused process keeps the lease of its attempt; 30 s by default. */
  readonly leaseMs?: number | undefined;
  readonly store: Store;
  readonly health: ConnectionHealth;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly tokens: TokenEndpoint;
  readonly grants: GrantCount;
  readonly restorationOf: () => Promise<Restoration | undefined>;
  readonly world: World;
}

/**
 * Limit for one integration. A thousand tokens that expire in one second would delay every other call. If a token
 * endpoint is down, waiting refreshes learn that from the first failure.
 */
const mostAtOnce = 32;
const closeWithinMs = 10_000;
/** Callers learn within two seconds that the store accepts no writes. */
const storePatienceMs = 1_000;

/** A running attempt. All callers share one promise and one timeout. */
interface RefreshFlight {
  /** The credentials to replace. The attempt does not help callers that have other credentials. */
  readonly seen: Credentials;
  readonly why: RenewalReason;
  readonly flown: Promise<void>;
  readonly shared: Promise<void>;
  /** Rejects when the result cannot be stored yet. */
  readonly trouble: Promise<never>;
}

export function createRefresher(options: RefresherOptions): Refresher {
  const { store, health, integrations, providers, tokens, grants, world } = options;
  const { log } = world;
  const times = refreshLeaseTimes(options.leaseMs);
  const { leaseMs, silenceMs } = times;
  const leases = createLeases(store);
  const breaker = createRefreshBreaker();
  const flights = new Map<string, RefreshFlight>();
  const turns = createLimiter(mostAtOnce);
  let isClosing = false;
  let isOver = false;
  const pace = createRefreshPace();
  const attempt = createAttempts({
    ...{ restorationOf: options.restorationOf },
    ...{ read, findLease: (ref) => findLease(ref), store, health, tokens, grants, breaker, pace, times, world },
    isOver: () => isOver,
  });

  const watchOne = () => watchHolder({ sessions: store.sessions, silenceMs });

  function findLease(ref: ConnectionRef, watch?: HolderWatch): Promise<FreeLease | undefined> {
    return leases.find(refreshLease(ref), leaseMs, watch);
  }

  async function read(ref: ConnectionRef): Promise<RefreshTarget> {
    const { environment, integration: key, id } = ref;
    const at = { environment, key };
    const [known, { integration, secrets }] = await Promise.all([health.read(ref), integrations.inUse(at)]);
    if (known === undefined) {
      throw new Fault("unknown_connection", `there is no connection "${id}" of the integration "${key}"`);
    }
    return { known, integration, secrets, provider: await providers.findNow(known.connection.value.provider) };
  }

  async function flyInTurn(ref: ConnectionRef, asked: RefreshRequest, course: RefreshCallbacks): Promise<void> {
    const pauseMs = await inTurn(ref, () => flyOn(ref, asked, { ...course, hasPaused: false }));
    if (pauseMs === 0) return;
    // Sleeps without the limiter's slot, which others can use. Only once, since a wall clock may stand still.
    await sleep(pauseMs);
    await inTurn(ref, () => flyOn(ref, asked, { ...course, hasPaused: true }));
  }

  async function inTurn<T>(ref: ConnectionRef, act: () => Promise<T>): Promise<T> {
    const giveBack = await turns(breakerKey(ref));
    try {
      return await act();
    } finally {
      giveBack();
    }
  }

  /** Retries a short failure of the store. Nothing was sent yet, so nothing can be sent twice. */
  async function flyOn(ref: ConnectionRef, asked: RefreshRequest, course: Pausing<RefreshCallbacks>): Promise<number> {
    const until = performance.now() + storePatienceMs;
    for (;;) {
      let isSent = false;
      const onSent = () => {
        isSent = true;
      };
      try {
        return await fly(ref, asked, { ...course, onSent });
      } catch (error) {
        if (!(error instanceof StoreUnavailable) || isSent || isClosing || performance.now() > until) throw error;
        log.debug("the store failed before anything was sent: once more", { err: error });
        await sleep(lookAgainMs * (0.5 + Math.random()));
      }
    }
  }

  /** Returns how long to pause before the next attempt; 0 when finished. */
  async function fly(ref: ConnectionRef, { seen, why }: RefreshRequest, course: Pausing<RefreshRun>): Promise<number> {
    const until = performance.now() + patienceMs;
    const holder = watchOne();
    for (;;) {
      const leave = await pace.begin();
      try {
        const [found, free] = await Promise.all([read(ref), findLease(ref, holder)]);
        if (!isSame(found, seen) || (why === "refused" && isCoolingDown(found, world.now()))) return 0;
        requireTryable(ref, found, why);
        const pauseMs = course.hasPaused || isClosing ? 0 : pauseBefore(found, why, world.now());
        if (pauseMs > 0) return pauseMs;
        requireOpen(breaker.closedUntil(breakerKey(ref), world.now()));
        if (free !== undefined) {
          const onSent = () => {
            leave();
            course.onSent();
          };
          const isForced = why !== "due";
          if ((await tryOnce({ ref, found, free, isForced, course: { ...course, onSent } })) === "done") return 0;
          continue;
        }
      } finally {
        leave();
      }
      // Another replica refreshes the connection, or was about to when it died.
      if (performance.now() > until || isClosing) throw unavailable("another replica is renewing it", 1);
      await sleep(lookAgainMs * (0.5 + Math.random()));
    }
  }

  /** Throws the caller's error if the provider should not be asked now. */
  function requireTryable(ref: ConnectionRef, { known, integration, provider }: RefreshTarget, why: RenewalReason) {
    const { credentials } = known;
    const record = known.record?.value;
    const isForced = why === "refused" || (why === "requested" && record !== undefined && record.failures > 0);
    if (record !== undefined && record.deadReason !== "") throw reauthorize(ref, record.deadReason);
    if (renewalOf({ credentials, provider, integration }) === undefined) throw reauthorize(ref, "credentials_expired");
    const now = world.now();
    const due = nextAttemptMs(record, { isForced, nowMs: now });
    if (record === undefined || due === undefined || due <= now) return;
    if (isForOperator(record.lastFailure)) {
      // The integration was changed after the refusal, probably to fix it, so callers need not wait.
      const changedAt = integration.updatedAt === undefined ? 0 : timestampMs(integration.updatedAt);
      if (record.lastFailedAt !== undefined && changedAt > timestampMs(record.lastFailedAt)) return;
      throw misconfigured(record.lastCode);
    }
    const lastFailure = record.failures === 0 ? "it was renewed a moment ago" : `renewal fails (${record.lastCode})`;
    throw unavailable(lastFailure, (due - now) / 1_000);
  }

  function requireOpen(closed: BreakerState | undefined): void {
    if (closed !== undefined) throw faultOfClosed(closed, world.now());
  }

  interface Trying {
    readonly ref: ConnectionRef;
    readonly found: RefreshTarget;
    readonly free: FreeLease;
    readonly isForced: boolean;
    readonly course: RefreshRun;
  }

  /** `again`: another write changed the connection in the meantime. */
  async function tryOnce({ ref, found, free, isForced, course }: Trying): Promise<"done" | "again"> {
    const { integration, secrets, provider } = found;
    const { credentials } = found.known;
    const renewal = renewalOf({ credentials, provider, integration });
    if (renewal === undefined) return "done";
    const log = health.beginLog({ operation: "auth.refresh", ref, credentials, secrets });
    const probe = breaker.enter(breakerKey(ref), world.now());
    if ("closed" in probe) throw faultOfClosed(probe.closed, world.now());
    try {
      return await attempt({ ref, found, renewal, free, log, isForced, ...course });
    } finally {
      probe.leave();
    }
  }

  const isNothingToUs = (err: unknown) => log.debug("other credentials were not renewed", { err });

  return {
    async renew(ref, asked) {
      const key = `${ref.environment}\0${ref.integration}\0${ref.id}`;
      for (let known = flights.get(key); known !== undefined; known = flights.get(key)) {
        // A refresh for a refused token may end without a request.
        const isEnough = known.why !== "refused" || asked.why === "refused";
        if (isEnough && equals(CredentialsSchema, known.seen, asked.seen)) return known.shared;
        // The running attempt replaces credentials that are no longer stored, so its result is irrelevant here.
        await patiently(known.flown.catch(isNothingToUs), known.trouble);
      }
      const { promise: durable, resolve: onDurable } = Promise.withResolvers<void>();
      const { promise: trouble, reject: onStoreTrouble } = Promise.withResolvers<never>();
      const flown = flyInTurn(ref, asked, { onDurable, onStoreTrouble }).finally(() => flights.delete(key));
      const shared = patiently(Promise.race([flown, durable]), trouble);
      flights.set(key, { seen: asked.seen, why: asked.why, flown, shared, trouble });
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

/** Rejects after the timeout, so that callers retry; the attempt continues. */
async function patiently(flight: Promise<void>, trouble: Promise<never>): Promise<void> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const waiting = setTimeout(() => reject(unavailable("the provider takes long", 5)), patienceMs).unref();
  try {
    await Promise.race([flight, trouble, late]);
  } finally {
    clearTimeout(waiting);
  }
}

/** Whether the current credentials replaced ones that were refused to another caller a moment ago. */
function isCoolingDown({ known: { record } }: RefreshTarget, now: number): boolean {
  if (record === undefined || record.value.failures > 0 || record.value.lastSucceededAt === undefined) return false;
  const gotAt = timestampMs(record.value.lastSucceededAt);
  return now >= gotAt && now < gotAt + coolDownMs;
}

/** Limits how soon a refresh may follow another: only if new tokens expire at once, or a caller asks in a loop. */
function pauseBefore({ known: { record, credentials } }: RefreshTarget, why: RenewalReason, now: number): number {
  if (record === undefined) return 0;
  const isLimited = why === "requested" || areShortLived(record.value, credentialsExpireAt(credentials));
  return isLimited ? pauseAfterSuccessMs(record.value, now) : 0;
}

type Pausing<T> = T & { readonly hasPaused: boolean };
