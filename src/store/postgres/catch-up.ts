import type { LoopClock } from "../../base/loop-clock.ts";
import { StoreUnavailable } from "../contract.ts";
import type { History } from "../history.ts";
import type { CommitStream } from "./commit-stream.ts";
import type { ConnectionLimits } from "./connections.ts";
import { hasMarkSql } from "./marks.ts";
import type { Queries } from "./queries.ts";
import { createSharedQuery } from "./shared-query.ts";

interface FeedCatchUpOptions {
  readonly queries: Queries;
  readonly schema: string;
  readonly stream: CommitStream;
  readonly history: History;
  readonly clock: LoopClock;
  readonly limits: Pick<ConnectionLimits, "answerWithinMs">;
}

/**
 * Returns the function that reads up to the head at the time of the call. Most often the head was read already, or is
 * being committed here.
 */
export function createCatchUp(options: FeedCatchUpOptions): () => Promise<void> {
  const { queries, schema, stream, history, clock, limits } = options;
  const headSql = `
    select revision, ${hasMarkSql(schema, { revision: "$1", value: "$2" })}
    from ${schema}.head order by revision desc limit 1`;

  /** Returns the revision to read up to; infinity if commits were lost, whatever the last revision is. */
  const currentHead = createSharedQuery(async () => {
    const { seen } = stream;
    const [head] = await queries.read<[number, boolean]>(headSql, [seen?.revision, seen?.value]);
    if (head === undefined) throw new StoreUnavailable("the store has no head");
    const [revision, hasMark] = head;
    return hasMark ? revision : Number.POSITIVE_INFINITY;
  });

  /** Limits the wait for watchers that read everything again, which may take any time. */
  async function inTime(relearning: Promise<void>): Promise<void> {
    const { promise: late, reject } = Promise.withResolvers<never>();
    const callOff = clock.after(limits.answerWithinMs, () =>
      reject(new StoreUnavailable("memory is still being rebuilt from the store; try again")),
    );
    await Promise.race([relearning, late]).finally(callOff);
  }

  return async () => {
    const head = await currentHead();
    await queries.attempt(() => stream.readUpTo(head));
    if (history.relearning !== undefined) await inTime(history.relearning);
  };
}
