import { setTimeout as sleep } from "node:timers/promises";
import { tokenRefreshOf } from "../../../auth/credential-refresh.ts";
import type { World } from "../../../base/world.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Store } from "../../../store/contract.ts";
import { type HolderWatch, watchHolder } from "../../../store/lease-holder-watch.ts";
import type { FreeLease } from "../../../store/leases.ts";
import type { ConnectionHealth } from "../../connections/health/health.ts";
import { integrationKey } from "../../connections/integration-name.ts";
import type { RunAttempt } from "./attempt-runner.ts";
import type { AttemptCallbacks, AttemptOutcome } from "./refresh-attempt.ts";
import type { RefreshBreaker } from "./refresh-breaker.ts";
import { lookAgainMs, patienceMs } from "./refresh-commit.ts";
import { faultOfClosed, unavailable } from "./refresh-faults.ts";
import type { RefreshPace } from "./refresh-pace.ts";
import { isAnswered, pauseBeforeMs, type RefreshRequest, requireRefreshable } from "./refresh-request.ts";
import type { ReadTarget, RefreshTarget } from "./refresh-target.ts";

export interface RunCallbacks extends AttemptCallbacks {
  /** The caller has already paused: run without another pause. */
  readonly hasPaused: boolean;
}

/**
 * Runs one refresh to its end: waits while another replica refreshes the connection, and attempts again when another
 * write changed the connection. Returns how long to pause before the next run; 0 when finished.
 */
export type RunRefresh = (ref: ConnectionRef, request: RefreshRequest, callbacks: RunCallbacks) => Promise<number>;

interface RefreshRunOptions {
  readonly read: ReadTarget;
  readonly findLease: (ref: ConnectionRef, watch: HolderWatch) => Promise<FreeLease | undefined>;
  readonly runAttempt: RunAttempt;
  readonly store: Pick<Store, "sessions">;
  /** A lease holder without a session at the store, and without renewal for this long, is dead. */
  readonly silenceMs: number;
  readonly health: ConnectionHealth;
  readonly breaker: RefreshBreaker;
  readonly pace: RefreshPace;
  readonly isClosing: () => boolean;
  readonly world: World;
}

export function createRefreshRun(options: RefreshRunOptions): RunRefresh {
  const { read, findLease, runAttempt, store, silenceMs, health, breaker, pace, isClosing, world } = options;

  interface AttemptStart {
    readonly ref: ConnectionRef;
    readonly found: RefreshTarget;
    readonly free: FreeLease;
    readonly isForced: boolean;
    readonly token: string | undefined;
    readonly callbacks: AttemptCallbacks;
  }

  async function startAttempt({ ref, found, free, isForced, token, callbacks }: AttemptStart): Promise<AttemptOutcome> {
    const { integration, secrets, provider } = found;
    const { credentials } = found.known;
    const renewal = tokenRefreshOf({ credentials, provider, integration }, token);
    if (renewal === undefined) return "done";
    const log = health.beginLog({ operation: "auth.refresh", ref, credentials, secrets });
    const probe = breaker.enter(integrationKey(ref), world.now());
    if ("closed" in probe) throw faultOfClosed(probe.closed, world.now());
    try {
      return await runAttempt({ ref, found, renewal, free, log, isForced, ...callbacks });
    } finally {
      probe.leave();
    }
  }

  return async (ref, request, callbacks) => {
    const { why, token } = request;
    const until = performance.now() + patienceMs;
    const holder = watchHolder({ sessions: store.sessions, silenceMs });
    for (;;) {
      const leave = await pace.begin();
      try {
        const [found, free] = await Promise.all([read(ref), findLease(ref, holder)]);
        if (isAnswered(found, request, world.now())) return 0;
        requireRefreshable({ ref, target: found, why, token, nowMs: world.now() });
        const mayPause = !callbacks.hasPaused && !isClosing();
        const pauseMs = mayPause ? pauseBeforeMs({ target: found, why, token, nowMs: world.now() }) : 0;
        if (pauseMs > 0) return pauseMs;
        const closed = breaker.closedUntil(integrationKey(ref), world.now());
        if (closed !== undefined) throw faultOfClosed(closed, world.now());
        if (free !== undefined) {
          const onSent = () => {
            leave();
            callbacks.onSent();
          };
          const isForced = why !== "due";
          const outcome = await startAttempt({
            ref,
            found,
            free,
            isForced,
            token,
            callbacks: { ...callbacks, onSent },
          });
          if (outcome === "done") return 0;
          continue;
        }
      } finally {
        leave();
      }
      // Another replica refreshes the connection, or was about to when it died.
      if (performance.now() > until || isClosing()) throw unavailable("another replica is refreshing them", 1);
      await sleep(lookAgainMs * (0.5 + Math.random()));
    }
  };
}
