import { Fault } from "../../../base/fault.ts";
import type { AuthorizationCollections } from "../authorization-collections.ts";
import type { StoredSession } from "../sessions.ts";
import { isOver, pendingLifetimeMs } from "./pending-authorizations.ts";

/** Limits the authorizations that one connect session has begun and not ended. */
export interface PendingLimit {
  /** Runs `begin`, which stores one more. Throws `too_many_requests` if the session has as many as it may. */
  withRoom<T>(session: StoredSession, begin: () => Promise<T>): Promise<T>;
}

interface PendingLimitOptions {
  readonly collections: AuthorizationCollections;
  readonly now: () => number;
}

/** Limit for one session: only a script begins more often. */
const maxPending = 20;
/** Finished authorizations stay stored for a while: three of their lifetimes fit into a session's. */
const maxRead = 3 * maxPending;

export function createPendingLimit({ collections, now }: PendingLimitOptions): PendingLimit {
  /** The number, by session, of authorizations that begin now. */
  const beginning = new Map<string, number>();
  return {
    async withRoom({ value: { id } }, begin) {
      // Counted before the read: an authorization that is stored meanwhile counts twice rather than not at all.
      const before = beginning.get(id) ?? 0;
      beginning.set(id, before + 1);
      try {
        const found = await collections.pendingAuthorizations.pageBy("session", { under: [id], limit: maxRead });
        const at = now();
        if (found.filter(({ value }) => !isOver(value, at)).length + before >= maxPending) {
          throw new Fault(
            "too_many_requests",
            "too many authorizations of this connect session are pending; retry later",
            { retryAfterSeconds: pendingLifetimeMs / 1_000 },
          );
        }
        return await begin();
      } finally {
        const left = (beginning.get(id) ?? 1) - 1;
        if (left === 0) beginning.delete(id);
        else beginning.set(id, left);
      }
    },
  };
}
