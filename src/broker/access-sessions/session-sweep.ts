import { setImmediate } from "node:timers/promises";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../base/world.ts";
import type { Change, Store } from "../../store/contract.ts";
import { partsOf } from "../../store/keys.ts";
import { transact } from "../../store/records.ts";
import { isStoredMark } from "../setup/authentication.ts";
import { keysUntil } from "../stored/sortable-time.ts";
import type { AccessSessionCollections } from "./access-session-collections.ts";
import { endingOf } from "./access-sessions.ts";
import type { SessionCallers } from "./session-callers.ts";
import { keyMarkOf } from "./session-memory.ts";

interface SessionSweepOptions {
  readonly store: Store;
  readonly collections: AccessSessionCollections;
  readonly memory: Pick<SessionCallers, "creators" | "hasCreator">;
  readonly world: World;
}

/** For so long, a session that has ended can be shown. */
const keptMs = 7 * 86_400_000;
/** Limit for one commit; the next commit takes the rest. */
const perCommit = 500;
const commitsPerSweep = 50;
/** Sessions that are looked at before other work has its turn. */
const perTurn = 5_000;

/**
 * Moves expired sessions, and those whose key was deleted, to those that have ended, and deletes these after a week.
 * A session of a key in the configuration waits for its expiry: the configuration of another replica may have the key.
 */
export function createSessionSweep({ store, collections, memory, world }: SessionSweepOptions) {
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
      ...budgets.map(({ value }) => budgetDeletion(value.sessionId)),
    ];
  }

  /** Returns the IDs of the sessions whose key was deleted. They are refused already. */
  async function orphans(signal: AbortSignal): Promise<string[]> {
    await store.caughtUp();
    const found: string[] = [];
    let seen = 0;
    for (const session of memory.creators()) {
      seen += 1;
      if (seen % perTurn === 0) await setImmediate(undefined, { signal });
      if (isStoredMark(keyMarkOf(session)) && !memory.hasCreator(session)) found.push(session.id);
    }
    return found;
  }

  async function endOrphans(signal: AbortSignal): Promise<void> {
    const ids = await orphans(signal);
    for (let i = 0; i < ids.length && !signal.aborted; i += perCommit) {
      await transact(store, async () => {
        const part = ids.slice(i, i + perCommit).map((id) => [id]);
        const found = (await accessSessions.getMany(part)).filter((one) => one !== undefined);
        const endedAt = timestampFromMs(world.now());
        return {
          changes: found.flatMap((before) => {
            const { id, createdBy: endedBy } = before.value;
            return [...endingOf(collections, before, { ...before.value, endedAt, endedBy }), budgetDeletion(id)];
          }),
          result: undefined,
        };
      });
    }
  }

  /** A replica may draw in the meantime: whatever it takes, the session is over. */
  const budgetDeletion = (id: string): Change => ({ key: `${accessSessionBudgets.name}\0${id}`, value: undefined });

  async function outdated(): Promise<Change[]> {
    const range = keysUntil(`${endedAccessSessions.name}.age`, world.now() - keptMs);
    const keys = await store.list({ ...range, limit: perCommit });
    const found = await endedAccessSessions.getMany(keys.map(({ key }) => partsOf(key).slice(2)));
    return found.flatMap((before) =>
      before === undefined ? [] : endedAccessSessions.change({ before, after: undefined }),
    );
  }

  return async (signal: AbortSignal): Promise<void> => {
    await endOrphans(signal);
    for (let i = 0; i < commitsPerSweep && !signal.aborted; i += 1) {
      const changes = [...(await expired()), ...(await outdated())];
      if (changes.length === 0) return;
      await store.commit(changes);
    }
  };
}
