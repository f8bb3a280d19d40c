import type { World } from "../../../base/world.ts";
import { ToolFailure } from "../../../core/scripts/script.ts";
import { type Lease, LeaseLost, type Leases } from "../../../store/leases.ts";

/**
 * Locks that a run holds: within an environment, only one run can hold a key, across all replicas. Operations of one
 * run take effect in the order of their calls, even if the script does not wait for them.
 */
export interface RunLocks {
  /** Returns whether the run has the lock now. Extends a lock that the run already has. */
  acquire(key: string, ttlMs: number): Promise<boolean>;
  /** Returns whether the run had the lock. */
  release(key: string): Promise<boolean>;
  releaseAll(): Promise<void>;
}

export type OpenRunLocks = (environment: string) => RunLocks;

interface LocksOptions {
  readonly leases: Pick<Leases, "take">;
  readonly world: Pick<World, "log">;
}

/** Limits the locks of a run: each lock uses two keys in the store. */
const maxLocks = 100;

export function createScriptLocks({ leases, world }: LocksOptions): OpenRunLocks {
  return (environment) => {
    const held = new Map<string, Lease>();
    let last: Promise<unknown> = Promise.resolve();

    /** Runs an operation after all earlier ones of this run. */
    function inOrder<T>(operation: () => Promise<T>): Promise<T> {
      const done = last.then(operation);
      last = done.catch(() => undefined);
      return done;
    }

    async function acquire(key: string, ttlMs: number): Promise<boolean> {
      const lease = held.get(key);
      if (lease !== undefined && (await isExtended(lease, ttlMs))) return true;
      held.delete(key);
      if (held.size >= maxLocks) throw new ToolFailure("too_many", `a run holds at most ${maxLocks} locks`);
      const taken = await leases.take(`script-lock/${environment}/${key}`, ttlMs);
      if (taken !== undefined) held.set(key, taken);
      return taken !== undefined;
    }

    async function release(key: string): Promise<boolean> {
      const lease = held.get(key);
      if (lease === undefined) return false;
      held.delete(key);
      const wasHeld = lease.remainingMs() > 0;
      await lease.release();
      return wasHeld;
    }

    return {
      acquire: (key, ttlMs) => inOrder(() => acquire(key, ttlMs)),
      release: (key) => inOrder(() => release(key)),
      releaseAll: () =>
        inOrder(async () => {
          for (const key of [...held.keys()]) {
            await release(key).catch((err: unknown) => {
              // The lock expires by itself.
              world.log.warn("could not release a lock at the end of a run; it will expire", { environment, err });
            });
          }
        }),
    };
  };
}

/** Extends a lock in one commit: between a release and another take, another run could take the lock. */
async function isExtended(lease: Lease, ttlMs: number): Promise<boolean> {
  try {
    await lease.renew(ttlMs);
    return true;
  } catch (error) {
    // The lock expired, and another run has taken it.
    if (error instanceof LeaseLost) return false;
    throw error;
  }
}
