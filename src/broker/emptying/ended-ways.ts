import type { Change } from "../../store/contract.ts";
import type { PositionedRecord, Records } from "../../store/records.ts";
import type { AuthorizationCollections } from "../connect/authorization-collections.ts";
import type { EmptiedCounter, EmptyingReport } from "./report.ts";

/** Ends the ways to a new connection of an environment: connect sessions, and authorizations that are under way. */
export type EndWays = (report: EmptyingReport) => Promise<void>;

const pageSize = 200;

export function createEndWays(collections: AuthorizationCollections): EndWays {
  const { connectSessions, pendingAuthorizations, pendingDevices } = collections;

  /** Deletes the wanted records, a page in a commit with its count. */
  async function deleteAll<T>(
    report: EmptyingReport,
    { records, index, isWanted, counter }: EndedRecords<T>,
  ): Promise<void> {
    for (let after: string | undefined; ; ) {
      const page: readonly PositionedRecord<T>[] = await records.pageBy(index, { under: [], after, limit: pageSize });
      const wanted = page.filter(({ value }) => isWanted(value));
      const changes: Change[] = wanted.flatMap((before) => records.change({ before, after: undefined }));
      if (wanted.length > 0) {
        await report.commit(changes, { deleted: { [counter]: wanted.length } });
      }
      const last = page.at(-1);
      if (last === undefined || page.length < pageSize) return;
      after = last.position;
    }
  }

  return async (report) => {
    const { environment } = report.asked.emptying ?? {};
    const isOurs = (one: { readonly environment: string } | undefined) => one?.environment === environment;
    await deleteAll(report, {
      records: connectSessions,
      index: "age",
      isWanted: isOurs,
      counter: "connectSessions",
    });
    await deleteAll(report, {
      records: pendingAuthorizations,
      index: "age",
      isWanted: isOurs,
      counter: "authorizations",
    });
    await deleteAll(report, {
      records: pendingDevices,
      index: "age",
      isWanted: ({ begunWith }) => isOurs(begunWith),
      counter: "authorizations",
    });
  };
}

interface EndedRecords<T> {
  readonly records: Records<T>;
  readonly index: string;
  readonly isWanted: (value: T) => boolean;
  readonly counter: EmptiedCounter;
}
