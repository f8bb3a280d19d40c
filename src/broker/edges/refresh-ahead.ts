import { DueHeap } from "../../base/due-heap.ts";
import type { World } from "../../base/world.ts";
import type { StoredConnections } from "../credentials/live-connections.ts";
import type { FollowedConnection } from "./followed-connections.ts";

/**
 * Refreshes connections of edges ahead of their expiry, as a sidecar does when it uses them: only those that an edge
 * has used lately. A refreshed connection is sent because the store has changed.
 */
export interface RefreshAhead {
  /** Plans the refresh of a connection that was just read. */
  plan(one: FollowedConnection, refreshFromMs: number): void;
  /** Plans the refresh that was left out while the connection was not used. */
  used(one: FollowedConnection): void;
  /** Refreshes what is due now. */
  run(): void;
}

interface RefreshAheadOptions {
  readonly live: StoredConnections;
  readonly world: World;
}

/** A connection that was used within this time is refreshed. */
const usedLatelyMs = 3_600_000;
/** Wait after a failed refresh, while the credentials are still valid. */
const againMs = 30_000;
/** Refreshes that are started at a time; the refresher limits those of an integration. */
const mostAtOnce = 64;

export function createRefreshAhead({ live, world }: RefreshAheadOptions): RefreshAhead {
  const due = new DueHeap<FollowedConnection>();
  let running = 0;

  function lookAt(one: FollowedConnection, atMs: number): void {
    one.lookAtMs = atMs;
    due.push(one, atMs);
  }

  async function refresh(one: FollowedConnection): Promise<void> {
    const { refreshFrom, validUntil } = await live.stored(one.ref);
    const now = world.now();
    // After the expiry, the next use refreshes: an edge asks for it.
    if (validUntil <= now) return;
    if (refreshFrom > now) {
      one.refreshFromMs = refreshFrom;
      lookAt(one, refreshFrom);
      return;
    }
    try {
      await live.refreshSoon(one.ref);
    } catch (err) {
      world.log.debug("background refresh failed; retrying in 30 s", { integration: one.ref.integration, err });
      lookAt(one, world.now() + againMs);
    }
  }

  return {
    plan(one, refreshFromMs) {
      one.refreshFromMs = refreshFromMs;
      if (!Number.isFinite(refreshFromMs)) one.lookAtMs = undefined;
      // A look that comes too early plans the next one.
      else if (one.lookAtMs === undefined || refreshFromMs < one.lookAtMs) lookAt(one, refreshFromMs);
    },
    used(one) {
      if (one.lookAtMs === undefined && Number.isFinite(one.refreshFromMs)) lookAt(one, world.now());
    },
    run() {
      const now = world.now();
      for (let next = due.peek(); next !== undefined && next.dueMs <= now && running < mostAtOnce; next = due.peek()) {
        due.pop();
        const { item: one, dueMs } = next;
        // Planned for another time since, or no longer followed.
        if (one.lookAtMs !== dueMs || one.streams.size === 0) continue;
        one.lookAtMs = undefined;
        if (now - one.usedAtMs > usedLatelyMs) continue;
        running += 1;
        refresh(one)
          .catch(() => lookAt(one, world.now() + againMs))
          .finally(() => {
            running -= 1;
          });
      }
    },
  };
}
