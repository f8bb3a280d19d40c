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
import { refreshLease } from "../collections.ts";
import { credentialsExpireAt } from "../connections/credentials-expiry.ts";
import type { ConnectionHealth } from "../connections/health.ts";
import {
  areShortLived,
  coolDownMs,
  isForOperator,
  nextAttemptMs,
  pauseAfterSuccessMs,
} from "../connections/refresh-bookkeeping.ts";
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
 * Has credentials renewed: one attempt at a time for each connection, in this process by one promise that all who ask
 * share, among replicas by a lease. What came is written down before anybody uses it, and written only over what it
 * replaces. A provider that rotates refresh tokens forgives no mistake here.
 */
export interface Refresher {
  /** Resolves once the credentials are others than `seen`. Rejects with a Fault that says why they are not. */
  renew(ref: ConnectionRef, asked: RefreshRequest): Promise<void>;
  /** What was learned of an integration may be wrong: it has changed. */
  forgive(environment: string, integration: string): void;
  /** Attempts that are under way are waited for: what a provider has given is written down. */
  close(): Promise<void>;
}

export interface RefreshRequest {
  /** What whoever asks has. Compared by what it holds: a re-seal writes the same credentials anew. */
  readonly seen: Credentials;
  readonly why: RenewalReason;
}

/**
 * `due`: the time of the credentials is over, or nearly. `requested`: a caller wants new ones now. `refused`: the
 * provider did not take them; since it may refuse the next ones as well, at most once in half a minute.
 */
export type RenewalReason = "due" | "requested" | "refused";

interface RefresherOptions {
  /** For how long a paused process keeps the lease of its attempt; half a minute unless said. */
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
 * Of one integration. A thousand that run out in one second would hold up every other call; and of a token endpoint
 * that is down, those who wait learn from the first that failed.
 */
const mostAtOnce = 32;
const closeWithinMs = 10_000;
/** Whoever waits is told within two seconds that the store takes nothing. */
const storePatienceMs = 1_000;

/** An attempt under way. All who ask share one promise, and one patience. */
interface RefreshFlight {
  /** Callers that have other credentials are not helped by it. */
  readonly seen: Credentials;
  readonly why: RenewalReason;
  readonly flown: Promise<void>;
  readonly shared: Promise<void>;
  /** Rejects when what came of it cannot be written down yet. */
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
    // Outside of the turn, which others can use meanwhile. Once: a wall clock may stand still.
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

  /** A failure of the store that passes soon is nobody's. Nothing was sent yet that could be sent twice. */
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

  /** Returns how long to pause before it is tried again; 0 when it is over. */
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
      // Another replica renews it, or was about to when it died.
      if (performance.now() > until || isClosing) throw unavailable("another replica is renewing it", 1);
      await sleep(lookAgainMs * (0.5 + Math.random()));
    }
  }

  /** Throws what whoever asks is told, when nobody should ask the provider now. */
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
      // Changed since it was refused: somebody has mended it, and need not wait.
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

  /** `again`: something else has changed the connection meanwhile. */
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
        // One for a refused token may end without a request.
        const isEnough = known.why !== "refused" || asked.why === "refused";
        if (isEnough && equals(CredentialsSchema, known.seen, asked.seen)) return known.shared;
        // It renews what is not there any more: what comes of it is nothing to us.
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

/** Whoever waits is told to come again; what is under way goes on. */
async function patiently(flight: Promise<void>, trouble: Promise<never>): Promise<void> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const waiting = setTimeout(() => reject(unavailable("the provider takes long", 5)), patienceMs).unref();
  try {
    await Promise.race([flight, trouble, late]);
  } finally {
    clearTimeout(waiting);
  }
}

/** Another caller had its token refused a moment ago, and these came of it. */
function isCoolingDown({ known: { record } }: RefreshTarget, now: number): boolean {
  if (record === undefined || record.value.failures > 0 || record.value.lastSucceededAt === undefined) return false;
  const gotAt = timestampMs(record.value.lastSucceededAt);
  return now >= gotAt && now < gotAt + coolDownMs;
}

/** A renewal may follow another at once, but not where each brings a token that is over, or a caller asks in a loop. */
function pauseBefore({ known: { record, credentials } }: RefreshTarget, why: RenewalReason, now: number): number {
  if (record === undefined) return 0;
  const isLimited = why === "requested" || areShortLived(record.value, credentialsExpireAt(credentials));
  return isLimited ? pauseAfterSuccessMs(record.value, now) : 0;
}

type Pausing<T> = T & { readonly hasPaused: boolean };
