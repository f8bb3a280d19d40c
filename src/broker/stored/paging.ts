import type { PageRequest, PositionedRecord } from "../../store/records.ts";
import { pageTokens } from "./page-token.ts";

/** One page of a list, as it is asked for. */
export interface PageOptions {
  readonly size: number;
  /** `next` of the page before; empty for the first. */
  readonly token: string;
}

export interface BoundedPage extends PageOptions {
  /** A page is ended before it is larger than this, but holds at least one. */
  readonly maxBytes?: number;
}

/** One page of a list, as it is answered. */
export interface PageOf<T> {
  readonly items: readonly T[];
  /** Empty on the last page. */
  readonly next: string;
}

interface PageQuery<T> {
  /** What decides which items there are: a token of another question is refused. */
  readonly question: unknown;
  readonly page: PageOptions;
  readonly read: (request: Pick<PageRequest, "after" | "limit">) => Promise<readonly PositionedRecord<T>[]>;
}

/** A page of a list that needs no more than its own order. */
export async function listPage<T>({ question, page, read }: PageQuery<T>): Promise<PageOf<T>> {
  const tokens = pageTokens(question);
  // One more than asked for tells whether there is another page.
  const found = await read({ after: tokens.read(page.token), limit: page.size + 1 });
  const shown = found.slice(0, page.size);
  const last = found.length > page.size ? shown.at(-1) : undefined;
  return { items: shown.map(({ value }) => value), next: last === undefined ? "" : tokens.write(last.position) };
}

interface FilteredPageQuery<T> extends PageQuery<T> {
  readonly isWanted: (value: T) => boolean;
  /** Neither this one nor any that comes after it is wanted. */
  readonly isPast: (value: T) => boolean;
  /** Where the first page begins, when not at the beginning. */
  readonly start?: string | undefined;
  /** A page is ended before it is larger than this, but holds at least one. */
  readonly maxBytes?: number | undefined;
  /** Read at once: fewer of what may be large. */
  readonly chunk?: number;
}

/** A call looks at so many and then returns what it found, with a token to go on from. */
const lookedAtPerCall = 1_000;
const maxChunk = 100;

/** A page of those that are wanted, of a list that holds others too. */
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
