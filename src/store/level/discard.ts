import type { Backend, KeyCondition, KeyRange } from "../contract.ts";
import type { CheckedDatabase } from "./checked-database.ts";
import type { DiskSpace } from "./disk-space.ts";
import { decode } from "./frame.ts";
import type { Recovery } from "./recovery.ts";
import type { Refusals } from "./refusals.ts";

interface DiscardOptions {
  readonly database: Pick<CheckedDatabase, "db">;
  readonly disk: Pick<DiskSpace, "require">;
  readonly refusals: Refusals;
  readonly recovery: Recovery;
  /** Throws `StoreUnavailable` once the store is closed. */
  readonly requireOpen: () => void;
}

/** What a removed key takes in the log, at most. */
const bytesOfRemoval = 200;

/** Removes keys in a thread of LevelDB, without a commit: this process writes none of them to its ledger. */
export function createDiscard(options: DiscardOptions): Backend["discard"] {
  const { database, disk, refusals, recovery, requireOpen } = options;

  async function holds({ key, expect }: KeyCondition): Promise<boolean> {
    const value = await database.db.get(key);
    return (value === undefined ? 0 : decode(key, value).revision) === expect;
  }

  async function clear({ from, to, limit }: KeyRange): Promise<void> {
    try {
      await database.db.clear({ gte: from, lt: to, limit });
    } catch (error) {
      recovery.begin(error, []);
      throw refusals.current ?? error;
    }
  }

  return async (range, fence) => {
    requireOpen();
    await recovery.reopening;
    if (refusals.current !== undefined) throw refusals.current;
    const [[first], isHeld] = await Promise.all([
      database.db.keys({ gte: range.from, lt: range.to, limit: 1 }).all(),
      holds(fence),
    ]);
    if (first === undefined || !isHeld) return false;
    await disk.require(range.limit * bytesOfRemoval);
    await clear(range);
    return true;
  };
}
