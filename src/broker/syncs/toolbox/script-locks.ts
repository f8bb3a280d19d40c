import type { World } from "../../../base/world.ts";
import { ToolFailure } from "../../../core/scripts/script.ts";
import type { Lease, Leases } from "../../../store/leases.ts";

/** Locks that a run holds: within an environment, only one run can hold a key, across all replicas. */
export interface RunLocks {
  /** Returns whether the run has the lock now. Acquires a lock that the run already has for a new period. */
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

    async function release(key: string): Promise<boolean> {
      const lease = held.get(key);
      if (lease === undefined) return false;
      held.delete(key);
      const wasHeld = lease.remainingMs() > 0;
      await lease.release();
      return wasHeld;
    }

    return {
      release,
      async acquire(key, ttlMs) {
        if (held.has(key)) await release(key);
        else if (held.size >= maxLocks) throw new ToolFailure("too_many", `a run holds at most ${maxLocks} locks`);
        const lease = await leases.take(`script-lock/${environment}/${key}`, ttlMs);
        if (lease !== undefined) held.set(key, lease);
        return lease !== undefined;
      },
      async releaseAll() {
        for (const key of [...held.keys()]) {
          await release(key).catch((err: unknown) => {
            // The lock expires by itself.
            world.log.warn("a lock of a script was not released at the end of its run", { environment, err });
          });
        }
      },
    };
  };
}
