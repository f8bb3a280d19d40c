import { setTimeout as sleep } from "node:timers/promises";
import { equals } from "@bufbuild/protobuf";
import { createLimiter } from "../../../base/limiter.ts";
import type { World } from "../../../base/world.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import { CredentialsSchema } from "../../../gen/latchkey/v1/credentials_pb.ts";
import { type Restoration, type Store, StoreUnavailable } from "../../../store/contract.ts";
import type { HolderWatch } from "../../../store/lease-holder-watch.ts";
import { createLeases } from "../../../store/leases.ts";
import { connectionKey, refreshLease } from "../../connections/connection-collections.ts";
import type { ConnectionHealth } from "../../connections/health/health.ts";
import { integrationKey } from "../../connections/integration-name.ts";
import type { Integrations } from "../../setup/integrations.ts";
import type { Providers } from "../../setup/providers.ts";
import type { TokenEndpoint } from "../../tokens/token-endpoint.ts";
import type { GrantCount } from "../grant-count.ts";
import { createAttemptRunner } from "./attempt-runner.ts";
import { createRefreshBreaker } from "./refresh-breaker.ts";
import { lookAgainMs, patienceMs } from "./refresh-commit.ts";
import { unavailable } from "./refresh-faults.ts";
import { refreshLeaseTimes } from "./refresh-lease.ts";
import { createRefreshPace } from "./refresh-pace.ts";
import type { RefreshRequest } from "./refresh-request.ts";
import { createRefreshRun, type RunCallbacks } from "./refresh-run.ts";
import { createTargetReader } from "./refresh-target.ts";

/**
 * Refreshes credentials, one attempt at a time for each connection. In one process, all callers share a promise; among
 * replicas, a lease decides. New credentials are stored before anybody uses them, and replace only the ones they were
 * requested for. A provider that rotates refresh tokens forgives no mistake here.
 */
export interface Refresher {
  /** Resolves once the stored credentials differ from `seen`. Rejects with a Fault that gives the reason. */
  renew(ref: ConnectionRef, request: RefreshRequest): Promise<void>;
  /** Resets the breaker of an integration, since the integration has changed. */
  forgive(environment: string, integration: string): void;
  /** Waits for running attempts, so that tokens from the provider are stored. */
  close(): Promise<void>;
}

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

/** A running refresh. All callers share one promise and one timeout. */
interface RunningRefresh extends RefreshRequest {
  readonly finished: Promise<void>;
  readonly shared: Promise<void>;
  /** Rejects when the result cannot be stored yet. */
  readonly storeTrouble: Promise<never>;
}

export function createRefresher(options: RefresherOptions): Refresher {
  const { store, health, integrations, providers, tokens, grants, restorationOf, world } = options;
  const { log } = world;
  const times = refreshLeaseTimes(options.leaseMs);
  const leases = createLeases(store);
  const breaker = createRefreshBreaker();
  const pace = createRefreshPace();
  const running = new Map<string, RunningRefresh>();
  const limiter = createLimiter(mostAtOnce);
  let isClosing = false;
  let isOver = false;

  const read = createTargetReader({ health, integrations, providers });
  const findLease = (ref: ConnectionRef, watch?: HolderWatch) => leases.find(refreshLease(ref), times.leaseMs, watch);
  const runAttempt = createAttemptRunner({
    restorationOf,
    read,
    findLease: (ref) => findLease(ref),
    store,
    health,
    tokens,
    grants,
    breaker,
    pace,
    times,
    world,
    isOver: () => isOver,
  });
  const run = createRefreshRun({
    read,
    findLease,
    runAttempt,
    store,
    silenceMs: times.silenceMs,
    health,
    breaker,
    pace,
    world,
    isClosing: () => isClosing,
  });

  async function refresh(
    ref: ConnectionRef,
    request: RefreshRequest,
    callbacks: Omit<RunCallbacks, "onSent" | "hasPaused">,
  ): Promise<void> {
    const pauseMs = await limited(ref, () => runPatiently(ref, request, { ...callbacks, hasPaused: false }));
    if (pauseMs === 0) return;
    // Sleeps without the limiter's slot, which others can use. Only once, since a wall clock may stand still.
    await sleep(pauseMs);
    await limited(ref, () => runPatiently(ref, request, { ...callbacks, hasPaused: true }));
  }

  async function limited<T>(ref: ConnectionRef, act: () => Promise<T>): Promise<T> {
    const freeSlot = await limiter(integrationKey(ref));
    try {
      return await act();
    } finally {
      freeSlot();
    }
  }

  /** Retries a short failure of the store. Nothing was sent yet, so nothing can be sent twice. */
  async function runPatiently(
    ref: ConnectionRef,
    request: RefreshRequest,
    callbacks: Omit<RunCallbacks, "onSent">,
  ): Promise<number> {
    /** Set by the first failure: the run may have waited long for another replica before it. */
    let until: number | undefined;
    for (;;) {
      let isSent = false;
      const onSent = () => {
        isSent = true;
      };
      try {
        return await run(ref, request, { ...callbacks, onSent });
      } catch (error) {
        until ??= performance.now() + storePatienceMs;
        if (!(error instanceof StoreUnavailable) || isSent || isClosing || performance.now() > until) throw error;
        log.debug("store failed before the token request; retrying", { err: error });
        await sleep(lookAgainMs * (0.5 + Math.random()));
      }
    }
  }

  const ignoreFailure = (err: unknown) => log.debug("refresh of earlier credentials failed", { err });

  return {
    async renew(ref, request) {
      const key = connectionKey(ref);
      for (let known = running.get(key); known !== undefined; known = running.get(key)) {
        // A refresh for a refused token may end without a request.
        const isSame = known.token === request.token;
        const isEnough = isSame && (known.why !== "refused" || request.why === "refused");
        if (isEnough && equals(CredentialsSchema, known.seen, request.seen)) return known.shared;
        // The running attempt replaces credentials that are no longer stored, so its result is irrelevant here.
        await patiently(known.finished.catch(ignoreFailure), known.storeTrouble);
      }
      const { promise: durable, resolve: onDurable } = Promise.withResolvers<void>();
      const { promise: storeTrouble, reject: onStoreTrouble } = Promise.withResolvers<never>();
      const finished = refresh(ref, request, { onDurable, onStoreTrouble }).finally(() => running.delete(key));
      const shared = patiently(Promise.race([finished, durable]), storeTrouble);
      running.set(key, { ...request, finished, shared, storeTrouble });
      return shared;
    },
    forgive: (environment, integration) => breaker.forget(integrationKey({ environment, integration })),
    async close() {
      isClosing = true;
      await Promise.race([
        Promise.allSettled([...running.values()].map(({ finished }) => finished)),
        sleep(closeWithinMs, undefined, { ref: false }),
      ]);
      isOver = true;
    },
  };
}

/** Rejects after the timeout, so that callers retry; the attempt continues. */
async function patiently(refresh: Promise<void>, storeTrouble: Promise<never>): Promise<void> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(unavailable("the provider did not respond in time", 5)), patienceMs).unref();
  try {
    await Promise.race([refresh, storeTrouble, late]);
  } finally {
    clearTimeout(timer);
  }
}
