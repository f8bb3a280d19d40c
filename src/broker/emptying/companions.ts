import { isLive } from "../../core/scripts/sync-state.ts";
import type { Change, Entry, Store } from "../../store/contract.ts";
import { keyOf, partsOf, under } from "../../store/keys.ts";
import type { Records } from "../../store/records.ts";
import type { ApprovalCollections } from "../approvals/approval-collections.ts";
import { removal } from "../approvals/approval-endings.ts";
import { type ConnectionCollections, lookupSpace, overrideSpace } from "../connections/connection-collections.ts";
import type { SyncCollections } from "../syncs/sync-collections.ts";

/** What is stored beside connections, under their own parts: environment, integration and ID. */
export interface Companion {
  /** The first parts of its keys. */
  readonly space: readonly string[];
  /** Whether `deletion` reads the value of the entry. */
  readonly readsValue: boolean;
  /** Returns the changes that delete an entry, with its secondary keys. */
  deletion(entry: Entry): Promise<readonly Change[]>;
}

/** Consecutive connections of one integration. */
export interface ConnectionSpan {
  readonly environment: string;
  readonly integration: string;
  readonly first: string;
  readonly last: string;
}

export type CompanionCollections = ConnectionCollections & SyncCollections & ApprovalCollections;

export function createCompanions(collections: CompanionCollections): readonly Companion[] {
  const { descriptions, refreshes, syncs, runs } = collections;
  return [
    plain(lookupSpace),
    plain(overrideSpace),
    recordsOf(descriptions),
    recordsOf(refreshes),
    {
      space: [syncs.name],
      readsValue: true,
      async deletion(entry) {
        const found = syncs.read(entry, entry.revision)?.value;
        if (found === undefined) return [];
        const { environment, queuedId, runningId } = found;
        const live = await runs.getMany([queuedId, runningId].flatMap((id) => (id === "" ? [] : [[environment, id]])));
        return [
          ...deleted(syncs, entry),
          // The process that runs it sees the mark, and the run can write nothing more.
          ...live.flatMap((before) =>
            before === undefined || !isLive(before.value)
              ? []
              : runs.change({ before, after: { ...before.value, cancelling: true } }),
          ),
        ];
      },
    },
    {
      space: ["approval.connection"],
      readsValue: true,
      async deletion({ key }) {
        const [environment = "", id = ""] = partsOf(key).slice(-2);
        return removal(collections, await collections.approvals.get(environment, id));
      },
    },
    plain("credentials"),
  ];
}

function plain(...space: readonly string[]): Companion {
  return { space, readsValue: false, deletion: async ({ key }) => [{ key, value: undefined }] };
}

const recordsOf = <T>(records: Records<T>): Companion => ({
  space: [records.name],
  readsValue: true,
  deletion: async (entry) => deleted(records, entry),
});

function deleted<T>(records: Records<T>, entry: Entry): readonly Change[] {
  const { revision, value: bytes } = entry;
  const value = records.read(entry, revision)?.value;
  return value === undefined
    ? []
    : records.change({ before: { value, revision, bytes: bytes.length }, after: undefined });
}

/**
 * Secondary keys of connections, which sort by their values: what is left of them is removed when the connections are
 * gone. Readers pass over a secondary key without a record. Memory follows these.
 */
export const watchedIndexes: readonly Companion[] = ["state", "match"].map((index) => plain(`connection.${index}`));

/**
 * Secondary keys that no watcher follows, so they are removed without a commit; and last-used times, which are written
 * behind, also for a connection that is gone.
 */
export const unwatchedSpaces: readonly (readonly string[])[] = [
  ["connection.tag"],
  ["connection.account"],
  ["connection.grant"],
  ["touch", "connection"],
];

/** Returns the companions of which the environment has any. */
export async function companionsIn(
  store: Store,
  { companions, environment }: { readonly companions: readonly Companion[]; readonly environment: string },
): Promise<readonly Companion[]> {
  const any = await Promise.all(
    companions.map(({ space }) => store.list({ ...under(...space, environment), limit: 1 })),
  );
  return companions.filter((_, i) => any[i]?.length === 1);
}

/** The range of what a companion, or another space, has of these connections. */
export const spanOf = (
  space: readonly string[],
  { environment, integration, first, last }: ConnectionSpan,
): { readonly from: string; readonly to: string } => ({
  from: keyOf(...space, environment, integration, first),
  // Beyond the key itself and all that begin with its parts.
  to: under(...space, environment, integration, last).to,
});
