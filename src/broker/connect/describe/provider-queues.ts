import { connectionOf } from "./due-descriptions.ts";

/** Due connections by provider, and how fast each provider may be asked. */
export interface ProviderQueues {
  isEmpty(): boolean;
  isUnderWay(connection: string): boolean;
  /** The requests that run now. */
  running(): readonly Promise<void>[];
  /** Replaces what waits; requests that run continue. */
  replace(due: ReadonlyMap<string, string[]>): void;
  clear(): void;
  /** Starts what the pace allows. Returns how many were started. */
  startDue(start: (due: DueConnection) => Promise<void>): number;
  /** Starts nothing of the provider for this long. */
  hold(provider: string, forMs: number): void;
  isHeld(provider: string): boolean;
  /** Returns whether something waits only for the pace of its provider. */
  isPaced(): boolean;
}

export interface DueConnection {
  /** Environment, integration and ID, separated by NUL. */
  readonly connection: string;
  readonly provider: string;
}

interface ProviderQueue {
  /** Keys of `description.due`, in order. */
  waiting: string[];
  underWay: number;
  /** The time in terms of `performance.now()`. */
  nextStartAt: number;
}

/**
 * Requests to one provider, of all replicas together: at once, and between the start of two. 20 a second, as for
 * notification channels.
 */
const maxOfProvider = 4;
export const startEveryMs = 50;
/** In this time, as many requests to a provider may start as may run at once. */
export const burstMs = maxOfProvider * startEveryMs;
const maxInAll = 16;
const longestHoldMs = 86_400_000;

interface ProviderQueuesOptions {
  /** The wall clock. */
  readonly now: () => number;
  /** Returns this process's part of a limit for all replicas together. */
  readonly shareOf: (limit: number) => number;
  /** Called when a request has ended, and another may start. */
  readonly onFree: () => void;
}

export function createProviderQueues({ now, shareOf, onFree }: ProviderQueuesOptions): ProviderQueues {
  const queues = new Map<string, ProviderQueue>();
  /** The running requests by connection. */
  const underWay = new Map<string, Promise<void>>();
  /** The end of each provider's wait, by the wall clock. */
  const held = new Map<string, number>();

  function queueOf(provider: string): ProviderQueue {
    const known = queues.get(provider);
    if (known !== undefined) return known;
    const made = { waiting: [], underWay: 0, nextStartAt: 0 };
    queues.set(provider, made);
    return made;
  }

  function isHeld(provider: string): boolean {
    const until = held.get(provider) ?? 0;
    // A wall clock that was set back must not block a provider forever.
    return until > now() && until <= now() + longestHoldMs;
  }

  function mayStart(provider: string, queue: ProviderQueue): boolean {
    return (
      !isHeld(provider) &&
      queue.waiting.length > 0 &&
      queue.underWay < shareOf(maxOfProvider) &&
      underWay.size < maxInAll &&
      performance.now() >= queue.nextStartAt
    );
  }

  return {
    isEmpty: () => queues.size === 0,
    isUnderWay: (connection) => underWay.has(connection),
    running: () => [...underWay.values()],
    replace(due) {
      for (const [provider, keys] of due) queueOf(provider).waiting = keys;
      for (const [provider, queue] of queues) {
        if (!due.has(provider)) queue.waiting = [];
        if (queue.waiting.length === 0 && queue.underWay === 0) queues.delete(provider);
      }
    },
    clear: () => queues.clear(),
    startDue(start) {
      let started = 0;
      for (const [provider, queue] of queues) {
        while (mayStart(provider, queue)) {
          const key = queue.waiting.shift();
          if (key === undefined) break;
          const connection = connectionOf(key);
          if (underWay.has(connection)) continue;
          const at = performance.now();
          queue.nextStartAt =
            Math.max(at - burstMs, queue.nextStartAt) + (startEveryMs * maxOfProvider) / shareOf(maxOfProvider);
          queue.underWay += 1;
          const request = start({ connection, provider }).finally(() => {
            underWay.delete(connection);
            queue.underWay -= 1;
            onFree();
          });
          underWay.set(connection, request);
          started += 1;
        }
      }
      return started;
    },
    hold(provider, forMs) {
      held.set(provider, now() + Math.min(forMs, longestHoldMs));
    },
    isHeld,
    isPaced: () =>
      [...queues].some(
        ([provider, { waiting, nextStartAt }]) =>
          waiting.length > 0 && performance.now() < nextStartAt && !isHeld(provider),
      ),
  };
}
