import type { Backend, Entry, KeyRange, Store } from "../../store/contract.ts";
import { after } from "../../store/keys.ts";
import type { StoredKey } from "./emptied-page.ts";

/** Entries of a commit: proxied requests wait for as long as one takes to compose and to report to watchers. */
const pageSize = 400;

export interface SpaceRange {
  readonly from: string;
  readonly to: string;
}

/** A page of entries, or of keys. */
interface FoundPage<E> {
  readonly entries: readonly E[];
  /** Where the next page begins; undefined after the last. */
  readonly rest: string | undefined;
}

interface PageWork<E, T> {
  readonly signal: AbortSignal;
  /** Reads the pages. */
  readonly list: (range: KeyRange) => Promise<FoundPage<E>>;
  /** Prepares a page, while the work on the page before is under way. */
  readonly prepare: (page: readonly E[]) => Promise<T>;
  readonly work: (prepared: T) => Promise<void>;
}

/** Deals with all entries of a range, a page after another. The next page is read and prepared in the meantime. */
export async function eachPage<E, T>(
  { from, to }: SpaceRange,
  { signal, list, prepare, work }: PageWork<E, T>,
): Promise<void> {
  async function take(start: string) {
    const { entries, rest } = await list({ from: start, to, limit: pageSize });
    return { prepared: entries.length === 0 ? undefined : await prepare(entries), rest };
  }

  let next = take(from);
  while (!signal.aborted) {
    const { prepared, rest } = await next;
    if (rest !== undefined) {
      next = take(rest);
      // A failure is met when the page is needed, unless the work fails first.
      next.catch(() => {});
    }
    if (prepared !== undefined) await work(prepared);
    if (rest === undefined) return;
  }
}

/** Reads keys alone: to open a value takes longer than to delete it. */
export const keyPages =
  (keys: Backend["keys"]) =>
  async (range: KeyRange): Promise<FoundPage<StoredKey>> => {
    const page = await keys(range);
    return { entries: page.keys.map((key) => ({ key })), rest: page.rest };
  };

export const entryPages =
  (store: Pick<Store, "list">) =>
  async (range: KeyRange): Promise<FoundPage<Entry>> => {
    const entries = await store.list(range);
    const last = entries.at(-1);
    return { entries, rest: last === undefined || entries.length < range.limit ? undefined : after(last.key) };
  };
