import { Fault } from "../../base/fault.ts";
import { createAdaptiveBeat } from "../../base/loop/adaptive-beat.ts";
import type { World } from "../../base/world.ts";
import { createOverload, type Overload, type OverloadRule } from "../../core/limits/overload.ts";

/** Limits the requests to providers. */
export interface LoadLimits {
  /** Requests and tunnels together. */
  readonly requests: number;
  readonly overload: OverloadRule;
}

/**
 * Rejects requests to providers while there are more than memory is meant for, or while the process cannot keep up.
 * Requests in progress continue. Checked first, so that a rejection is cheap. The control plane, other routes and
 * probes are not limited: failing readiness would also take down the sidecar's service, or move the excess to a
 * replica that is just as busy.
 */
export interface Load {
  /** Counts a request, or returns why not. Every counted request must call `leave` once. */
  enter(): Fault | undefined;
  /** Returns whether another request would be admitted, without counting one. */
  hasRoom(): boolean;
  leave(): void;
  configure(limits: LoadLimits): void;
  close(): void;
}

interface LoadOptions {
  readonly limits: LoadLimits;
  /** Called at each measurement, so that there is only one timer. */
  readonly onTick: (nowMs: number) => void;
  readonly world: World;
}

const measureEveryMs = 250;
/** Without requests to providers. */
const restMs = 1_000;
// Made once: creating a fault costs a third of a rejection.
/** Rejected callers retry within a few seconds, spread over several. */
const tooSlow = [1, 2, 3].map(
  (retryAfterSeconds) => new Fault("overloaded", "Latchkey is overloaded; try again later", { retryAfterSeconds }),
);
const tooMany = new Fault("overloaded", "too many requests are in progress; try again later", { retryAfterSeconds: 1 });

export function createLoad({ limits: first, onTick, world }: LoadOptions): Load {
  const { metrics, log } = world;
  let limits = first;
  let overload: Overload = createOverload(first.overload);
  let open = 0;
  let isOverloaded = false;
  let rejected = 0;
  /** Something asked for room since the last measurement. */
  let wasAsked = false;
  let dueAt = Number.POSITIVE_INFINITY;
  const delay = metrics.loopDelay.series({});
  metrics.overloaded.set(0);

  /** Measures how late the timer fires, and how long the loop takes for one more lap; the worse counts. */
  function measure(): void {
    const at = performance.now();
    const lateMs = at - dueAt;
    dueAt = at + (beat.isQuick ? measureEveryMs : restMs);
    // The first callback runs after the handling of everything that has arrived, the second a whole lap later.
    setImmediate(() => setImmediate(() => note(Math.max(lateMs, performance.now() - at))));
    onTick(at);
  }

  function note(lapMs: number): void {
    delay.observe(lapMs / 1_000);
    const before = isOverloaded;
    isOverloaded = overload(lapMs, performance.now());
    if (isOverloaded === before) return;
    metrics.overloaded.set(isOverloaded ? 1 : 0);
    if (isOverloaded) {
      rejected = 0;
      log.warn("overloaded; rejecting requests to providers", { lap_ms: Math.round(lapMs), open });
    } else {
      log.info("no longer overloaded; accepting requests to providers", {
        lap_ms: Math.round(lapMs),
        open,
        turned_away: rejected,
      });
    }
  }

  const beat = createAdaptiveBeat({
    busyMs: measureEveryMs,
    restMs,
    run() {
      const isBusy = wasAsked || open > 0 || isOverloaded;
      wasAsked = false;
      measure();
      return isBusy;
    },
  });

  function ask(): void {
    wasAsked = true;
    if (beat.isQuick) return;
    // The next measurement comes earlier than the last one expected.
    dueAt = Number.POSITIVE_INFINITY;
    beat.quicken();
  }

  return {
    enter() {
      ask();
      if (isOverloaded) {
        rejected += 1;
        metrics.proxyLimited.inc({ limit: "overload" });
        return tooSlow[Math.floor(Math.random() * tooSlow.length)];
      }
      if (open >= limits.requests) {
        metrics.proxyLimited.inc({ limit: "requests" });
        return tooMany;
      }
      open += 1;
      return undefined;
    },
    hasRoom: () => !isOverloaded && open < limits.requests,
    leave() {
      open -= 1;
    },
    configure(next) {
      const { delayMs, forMs } = limits.overload;
      const isSameRule = next.overload.delayMs === delayMs && next.overload.forMs === forMs;
      limits = next;
      if (!isSameRule) overload = createOverload(next.overload);
    },
    close: beat.stop,
  };
}
