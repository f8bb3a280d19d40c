import type { ConnectSession } from "../../gen/latchkey/v1/connect_session_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import { type Records, transact } from "../../store/records.ts";
import type { AuthorizationCollections } from "../connect/authorization-collections.ts";
import type { EndUserCollections } from "./end-user-collections.ts";

/** Deletions that are counted in the report of an end user's deletion, in the same commit. */
export interface CountedDeletions {
  /** Returns the change that counts deletions; none if the report is gone. `parts`: the key of the report. */
  counted(parts: readonly string[], counter: DeletionCounter, by: number): Promise<Change[]>;
  /** Deletes the wanted records. */
  deleteAll<T extends { readonly id: string }>(
    parts: readonly string[],
    counter: DeletionCounter,
    deleted: DeletedRecords<T>,
  ): Promise<void>;
  /** Returns the changes that delete the authorizations of a session that are under way. */
  pendingOf(session: ConnectSession): Promise<Change[]>;
}

type DeletionCounter = "connections" | "connectSessions" | "deviceAuthorizations";

interface DeletedRecords<T> {
  readonly records: Records<T>;
  readonly index: string;
  readonly isWanted: (value: T) => boolean;
  readonly alongside?: (value: T) => Promise<Change[]>;
}

const pageSize = 200;

export function createCountedDeletions({
  store,
  collections,
}: {
  readonly store: Store;
  readonly collections: EndUserCollections & AuthorizationCollections;
}): CountedDeletions {
  const { endUserDeletions, pendingAuthorizations } = collections;

  /** Returns the change that counts deletions; none if the deletion has ended. */
  async function counted(parts: readonly string[], counter: DeletionCounter, by: number): Promise<Change[]> {
    const before = await endUserDeletions.get(...parts);
    const deletion = before?.value.deletion;
    if (before === undefined || deletion === undefined) return [];
    const after = { ...before.value, deletion: { ...deletion, [counter]: deletion[counter] + by } };
    return endUserDeletions.change({ before, after });
  }

  /** Deletes each record in one commit with its count. */
  async function deleteAll<T extends { readonly id: string }>(
    parts: readonly string[],
    counter: DeletionCounter,
    { records, index, isWanted, alongside = async () => [] }: DeletedRecords<T>,
  ): Promise<void> {
    for (let after: string | undefined; ; ) {
      const page = await records.pageBy(index, { under: [], after, limit: pageSize });
      const wanted = page.filter(({ value }) => isWanted(value));
      for (const { value } of wanted) {
        await transact(store, async () => {
          const before = await records.get(value.id);
          if (before === undefined) return { changes: [], result: undefined };
          const changes = [
            ...records.change({ before, after: undefined }),
            ...(await alongside(value)),
            ...(await counted(parts, counter, 1)),
          ];
          return { changes, result: undefined };
        });
      }
      const last = page.at(-1);
      if (last === undefined || page.length < pageSize) return;
      after = last.position;
    }
  }

  async function pendingOf({ id }: ConnectSession): Promise<Change[]> {
    const found = await pendingAuthorizations.pageBy("session", { under: [id], limit: pageSize });
    return found.flatMap((before) => pendingAuthorizations.change({ before, after: undefined }));
  }

  return { counted, deleteAll, pendingOf };
}
