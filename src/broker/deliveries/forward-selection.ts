import { Fault } from "../../base/fault.ts";
import type { StoredForward } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Forward, ForwardFilter } from "../../gen/latchkey/v1/webhook_pb.ts";
import type { StoredRecordOf } from "../../store/records.ts";
import type { ForwardList, ForwardRecords } from "./forward-list.ts";

/** Forwards that a request names. */
export interface ForwardSelection {
  readonly environment: string;
  readonly ids: readonly string[];
  /** Selects forwards in place of ids. */
  readonly filter: ForwardFilter | undefined;
}

/** What a request would do to the selected forwards. */
export interface ForwardPreview {
  readonly count: number;
  readonly refused: ReadonlyMap<string, Fault>;
  /** The first of the counted forwards. */
  readonly sample: readonly Forward[];
  /** There are more than were counted. */
  readonly hasMore: boolean;
}

interface PreviewOptions {
  readonly records: ForwardRecords & Pick<ForwardList, "outline">;
  /** Throws the fault with which a forward would be refused. */
  readonly require: (forward: StoredForward) => void;
  /** Aborted when the caller leaves. */
  readonly signal: AbortSignal;
}

const chunkSize = 500;
const mostCounted = 100_000;
const mostSampled = 10;
const mostRefused = 100;

/** Yields the IDs of the selected forwards in chunks; those of a filter newest first. */
export async function* selectedIds(
  { environment, ids, filter }: ForwardSelection,
  records: ForwardRecords,
): AsyncGenerator<readonly string[]> {
  if (filter === undefined) yield ids;
  else for await (const page of pagesOf({ environment, filter }, records)) yield page.map(({ value }) => value.id);
}

/** Applies an action to each selected forward. A fault refuses one forward; any other error ends all. */
export async function forEachSelected(
  selection: ForwardSelection,
  records: ForwardRecords,
  act: (id: string) => Promise<void>,
): Promise<{ readonly done: number; readonly refused: ReadonlyMap<string, Fault> }> {
  const refused = new Map<string, Fault>();
  let done = 0;
  for await (const chunk of selectedIds(selection, records)) {
    await Promise.all(
      chunk.map(async (id) => {
        try {
          await act(id);
          done += 1;
        } catch (error) {
          if (!(error instanceof Fault)) throw error;
          refused.set(id, error);
        }
      }),
    );
  }
  return { done, refused };
}

/** Counts the selected forwards that would not be refused, and changes nothing. */
export async function previewOf(
  selection: ForwardSelection,
  { records, require, signal }: PreviewOptions,
): Promise<ForwardPreview> {
  const { environment, ids, filter } = selection;
  const refused = new Map<string, Fault>();
  const sample: Forward[] = [];
  let count = 0;

  async function look(id: string, read: () => Promise<StoredRecordOf<StoredForward>>): Promise<void> {
    try {
      const found = await read();
      require(found.value);
      count += 1;
      if (sample.length < mostSampled) sample.push(records.outline(found));
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      if (refused.size < mostRefused) refused.set(id, error);
    }
  }

  for (const id of ids) await look(id, () => records.find(environment, id));
  if (filter !== undefined) {
    for await (const page of pagesOf({ environment, filter }, records)) {
      signal.throwIfAborted();
      if (count >= mostCounted) return { count, refused, sample, hasMore: true };
      for (const found of page) await look(found.value.id, () => Promise.resolve(found));
    }
  }
  return { count, refused, sample, hasMore: false };
}

async function* pagesOf(
  query: { readonly environment: string; readonly filter: ForwardFilter },
  records: ForwardRecords,
): AsyncGenerator<readonly StoredRecordOf<StoredForward>[]> {
  for (let token = ""; ; ) {
    const { items, next } = await records.page(query, { size: chunkSize, token });
    if (items.length > 0) yield items;
    token = next;
    if (token === "") return;
  }
}
