import type { PageRequest, PositionedRecord } from "../../store/records.ts";
import { pageTokens } from "./page-token.ts";

/** The requested page of a list. */
export interface PageOptions {
  readonly size: number;
  /** `next` of the page before; empty for the first page. */
  readonly token: string;
}

export interface BoundedPage extends PageOptions {
  /** The page ends before its size exceeds this limit, but holds at least one item. */
  readonly maxBytes?: number;
}

/** A page of a list, as returned. */
export interface PageOf<T> {
  readonly items: readonly T[];
  /** Empty on the last page. */
  readonly next: string;
}

interface PageQuery<T> {
  /** Everything that decides the items; a page token of another question is rejected. */
  readonly question: unknown;
  readonly page: PageOptions;
  readonly read: (request: Pick<PageRequest, "after" | "limit">) => Promise<readonly PositionedRecord<T>[]>;
}

/** Reads a page of a list that is not filtered. */
export async function listPage<T>({ question, page, read }: PageQuery<T>): Promise<PageOf<T>> {
  const tokens = pageTokens(question);
  // Read one item more than requested, to see whether there is another page.
  const found = await read({ after: tokens.read(page.token), limit: page.size + 1 });
  const shown = found.slice(0, page.size);
  const last = found.length > page.size ? shown.at(-1) : undefined;
  return { items: shown.map(({ value }) => value), next: last === undefined ? "" : tokens.write(last.position) };
}

interface FilteredPageQuery<T> extends PageQuery<T> {
  readonly isWanted: (value: T) => boolean;
  /** Returns whether the list can end here: neither this item nor any later item is wanted. */
  readonly isPast: (value: T) => boolean;
  /** Position where the first page begins, if not at the beginning. */
  readonly start?: string | undefined;
  /** The page ends before its size exceeds this limit, but holds at least one item. */
  readonly maxBytes?: number | undefined;
  /** Number of items read at once: smaller for items that may be large. */
  readonly chunk?: number;
}

/** Limits the items that one call reads. The call then returns the matches, with a token to continue from. */
const lookedAtPerCall = 1_000;
const maxChunk = 100;

/** Reads a page of the wanted items from a list that holds other items too. */
export async function siftedPage<T>(sifting: FilteredPageQuery<T>): Promise<PageOf<T>> {
  const {
    question,
    page,
    read,
    isWanted,
    isPast,
    start,
    maxBytes = Number.POSITIVE_INFINITY,
    chunk: most = maxChunk,
  } = sifting;
  const tokens = pageTokens(question);
  let position = tokens.read(page.token) ?? start;
  const items: T[] = [];
  let room = maxBytes;
  for (let unseen = lookedAtPerCall; unseen > 0; ) {
    const limit = Math.min(most, unseen);
    const chunk = await read({ after: position, limit });
    for (const { value, position: at, bytes } of chunk) {
      if (isPast(value)) return { items, next: "" };
      if (isWanted(value)) {
        room -= bytes;
        if (items.length === page.size || (room < 0 && items.length > 0)) {
          return { items, next: tokens.write(position ?? "") };
        }
        items.push(value);
      }
      position = at;
    }
    unseen -= chunk.length;
    if (chunk.length < limit) return { items, next: "" };
  }
  return { items, next: position === undefined ? "" : tokens.write(position) };
}
