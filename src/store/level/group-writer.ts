import type { Metrics } from "../../base/metrics/metrics.ts";
import type { CommitOutcome, CommitRequest } from "../commit-queue.ts";
import type { StaleWrite } from "../contract.ts";
import type { History } from "../history.ts";
import type { AbsentKeys } from "./absent-keys.ts";
import { type CheckedDatabase, storedBytesOf } from "./checked-database.ts";
import { type AcceptedCommit, createCommitCheck } from "./commit-check.ts";
import type { DiskSpace } from "./disk-space.ts";
import type { Recovery } from "./recovery.ts";
import type { Refusals } from "./refusals.ts";

interface GroupWriterOptions {
  readonly database: CheckedDatabase;
  readonly absent: AbsentKeys;
  readonly disk: DiskSpace;
  readonly refusals: Refusals;
  readonly recovery: Recovery;
  readonly history: History;
  readonly metrics: Metrics;
}

/** Returns the function that checks a group of commits, writes the accepted ones, and reports them to watchers. */
export function createGroupWriter(options: GroupWriterOptions) {
  const { database, absent, disk, refusals, recovery, history, metrics } = options;
  const commitCheck = createCommitCheck({ database, absent });

  async function write(commits: readonly AcceptedCommit[]): Promise<void> {
    const bytes = storedBytesOf(commits);
    await disk.require(bytes);
    await database.write(commits, bytes);
    commitCheck.wrote(commits);
  }

  return async (group: readonly CommitRequest[]): Promise<readonly CommitOutcome[]> => {
    let accepted: readonly AcceptedCommit[] = [];
    try {
      const checked = await commitCheck.check(group);
      accepted = checked.flatMap((one) => ("changes" in one ? [one] : []));
      if (accepted.length > 0) await write(accepted);
      for (const commit of accepted) history.add(commit);
      metrics.storeRevision.set(database.revision);
      return checked.map(outcomeOf);
    } catch (error) {
      if (error !== refusals.of("diskFull")) {
        commitCheck.clear();
        recovery.begin(error, accepted);
      }
      throw error;
    }
  };
}

const outcomeOf = (checked: AcceptedCommit | StaleWrite): CommitOutcome =>
  "changes" in checked ? checked.revision : checked;
