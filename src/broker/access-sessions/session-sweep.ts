import type { World } from "../../base/world.ts";
import type { Change, Store } from "../../store/contract.ts";
import { partsOf } from "../../store/keys.ts";
import { keysUntil } from "../stored/sortable-time.ts";
import type { AccessSessionCollections } from "./access-session-collections.ts";
import { endingOf } from "./access-sessions.ts";

interface SessionSweepOptions {
  readonly store: Store;
  readonly collections: AccessSessionCollections;
  readonly world: World;
}

/** For so long, a session that has ended can be shown. */
const keptMs = 7 * 86_400_000;
/** Limit for one commit; the next commit takes the rest. */
const perCommit = 500;
const commitsPerSweep = 50;

/** Moves expired sessions to those that have ended, and deletes these after a week. */
export function createSessionSweep({ store, collections, world }: SessionSweepOptions) {
  const { accessSessions, endedAccessSessions, accessSessionBudgets } = collections;

  async function expired(): Promise<Change[]> {
    const range = keysUntil(`${accessSessions.name}.expiry`, world.now());
    const keys = await store.list({ ...range, limit: perCommit });
    const ids = keys.map(({ key }) => partsOf(key).slice(2));
    const found = (await accessSessions.getMany(ids)).filter((one) => one !== undefined);
    const budgets = (await accessSessionBudgets.getMany(ids)).filter((one) => one !== undefined);
    return [
      ...found.flatMap((before) => {
        const { expiresAt } = before.value;
        return endingOf(collections, before, { ...before.value, ...(expiresAt && { endedAt: expiresAt }) });
      }),
      // A replica may draw in the meantime: whatever it takes, the session is over.
      ...budgets.map(({ value }) => ({ key: `${accessSessionBudgets.name}\0${value.sessionId}`, value: undefined })),
    ];
  }

  async function outdated(): Promise<Change[]> {
    const range = keysUntil(`${endedAccessSessions.name}.age`, world.now() - keptMs);
    const keys = await store.list({ ...range, limit: perCommit });
    const found = await endedAccessSessions.getMany(keys.map(({ key }) => partsOf(key).slice(2)));
    return found.flatMap((before) =>
      before === undefined ? [] : endedAccessSessions.change({ before, after: undefined }),
    );
  }

  return async (signal: AbortSignal): Promise<void> => {
    for (let i = 0; i < commitsPerSweep && !signal.aborted; i += 1) {
      const changes = [...(await expired()), ...(await outdated())];
      if (changes.length === 0) return;
      await store.commit(changes);
    }
  };
}
