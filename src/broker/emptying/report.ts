import type { StoredEmptying } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Emptying } from "../../gen/latchkey/v1/environment_pb.ts";
import { type Change, type Condition, type KeyCondition, StaleWrite, type Store } from "../../store/contract.ts";
import { keyOf } from "../../store/keys.ts";
import type { StoredRecordOf } from "../../store/records.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";

/**
 * The report of an emptying under way. Each commit counts what it deletes, so that the report is exact after a crash,
 * and is refused once another process counts.
 */
export interface EmptyingReport {
  readonly asked: StoredEmptying;
  commit(changes: readonly Change[], step?: ReportStep): Promise<void>;
  /** Holds until another process counts, or an own step is committed. */
  readonly unchanged: KeyCondition;
}

interface ReportStep {
  readonly deleted?: Readonly<Partial<Record<EmptiedCounter, number>>>;
  /** Replaces fields of the report. */
  readonly fields?: Partial<Emptying>;
  readonly conditions?: readonly Condition[];
}

export type EmptiedCounter = "connections" | "revocations" | "connectSessions" | "authorizations";

interface EmptyingReportOptions {
  readonly store: Store;
  readonly collections: Pick<SetupCollections, "emptyings">;
}

/** Returns undefined if there is no report: the environment was deleted. */
export async function openReport(
  { store, collections: { emptyings } }: EmptyingReportOptions,
  environment: string,
): Promise<EmptyingReport | undefined> {
  const found = await emptyings.get(environment);
  if (found === undefined) return undefined;
  let current: StoredRecordOf<StoredEmptying> = found;
  return {
    asked: found.value,
    get unchanged() {
      return { key: keyOf(emptyings.name, environment), expect: current.revision };
    },
    async commit(changes, { deleted = {}, fields = {}, conditions = [] } = {}) {
      const { emptying } = current.value;
      if (emptying === undefined) throw new Error("a stored emptying has a report");
      const counts = Object.entries(deleted).map(([counter, by]) => [
        counter,
        emptying[counter as EmptiedCounter] + BigInt(by),
      ]);
      const next: StoredEmptying = {
        ...current.value,
        emptying: { ...emptying, ...Object.fromEntries(counts), ...fields },
      };
      const own = emptyings.change({ before: current, after: next });
      // Remembered instead of read again: a commit follows another.
      const revision = await store.commit([...own, ...changes], conditions);
      current = { ...current, value: next, revision };
    },
  };
}

/** Whether a commit was refused because another process counts, or because the report is gone. */
export const isReportLost = (error: unknown): boolean =>
  error instanceof StaleWrite && error.key.startsWith("emptying\0");
