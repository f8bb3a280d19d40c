import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { createOverload, type Overload, type OverloadRule } from "../../core/limits/overload.ts";

/** How much may be under way to providers before more is turned away. */
export interface LoadLimits {
  /** Requests and tunnels, all together. */
  readonly requests: number;
  readonly overload: OverloadRule;
}

/**
 * Turns requests to providers away while there are more than memory is meant for, or while the process cannot keep
 * up; those under way go on. Asked first of all, so that a refusal costs little. The control plane, the other routes
 * and the probes are never asked: readiness would take the service beside us out as well, or send what is too much
 * here to a replica that has as much already.
 */
export interface Load {
  /** Counts one more, or says why there is to be none. Whoever enters leaves, once. */
  enter(): Fault | undefined;
  /** Whether one more would be let in. Nobody is counted. */
  hasRoom(): boolean;
  leave(): void;
  configure(limits: LoadLimits): void;
  close(): void;
}

interface LoadOptions {
  readonly limits: LoadLimits;
  /** With each look at the loop, so that there is one timer. */
  readonly onLook: (nowMs: number) => void;
  readonly world: World;
}

const lookEveryMs = 250;
// Made once: to make one costs a third of turning a request away.
/** Those turned away come back within a few seconds, and not all in the same one. */
const tooSlow = [1, 2, 3].map(
  (retryAfterSeconds) => new Fault("overloaded", "latchkey has more to do than it can", { retryAfterSeconds }),
);
const tooMany = new Fault("overloaded", "as many requests as may be are under way", { retryAfterSeconds: 1 });

export function createLoad({ limits: first, onLook, world }: LoadOptions): Load {
  const { metrics, log } = world;
  let limits = first;
  let overload: Overload = createOverload(first.overload);
  let open = 0;
  let isOverloaded = false;
  let turnedAway = 0;
  let dueAt = performance.now() + lookEveryMs;
  metrics.overloaded.set(0);

  /** How late we are called, or how long the loop takes to come round once more: whichever is worse. */
  function look(): void {
    const at = performance.now();
    const lateMs = at - dueAt;
    dueAt = at + lookEveryMs;
    // The first is called after what has arrived by now was seen to, the second a whole lap later.
    setImmediate(() => setImmediate(() => note(Math.max(lateMs, performance.now() - at))));
    onLook(at);
  }

  function note(lapMs: number): void {
    const before = isOverloaded;
    isOverloaded = overload(lapMs, performance.now());
    if (isOverloaded === before) return;
    metrics.overloaded.set(isOverloaded ? 1 : 0);
    if (isOverloaded) {
      turnedAway = 0;
      log.warn("overloaded: requests to providers are turned away", { lap_ms: Math.round(lapMs), open });
    } else {
      log.info("no longer overloaded", { lap_ms: Math.round(lapMs), open, turned_away: turnedAway });
    }
  }

  const looking = setInterval(look, lookEveryMs);
  looking.unref();

  return {
    enter() {
      if (isOverloaded) {
        turnedAway += 1;
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
    close() {
      clearInterval(looking);
    },
  };
}
