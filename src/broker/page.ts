import { pageTokens } from "../core/page-token.ts";
import type { PageRequest, Positioned } from "../store/records.ts";

/** One page of a list, as it is asked for. */
export interface Page {
  readonly size: number;
  /** `next` of the page before; empty for the first. */
  readonly token: string;
}

/** One page of a list, as it is answered. */
export interface PageOf<T> {
  readonly items: readonly T[];
  /** Empty on the last page. */
  readonly next: string;
}

interface Listing<T> {
  /** What decides which items there are: a token of another question is refused. */
  readonly question: unknown;
  readonly page: Page;
  readonly read: (request: Pick<PageRequest, "after" | "limit">) => Promise<readonly Positioned<T>[]>;
}

/** A page of a list that needs no more than its own order. */
export async function listPage<T>({ question, page, read }: Listing<T>): Promise<PageOf<T>> {
  const tokens = pageTokens(question);
  // One more than asked for tells whether there is another page.
  const found = await read({ after: tokens.read(page.token), limit: page.size + 1 });
  const shown = found.slice(0, page.size);
  const last = found.length > page.size ? shown.at(-1) : undefined;
  return { items: shown.map(({ value }) => value), next: last === undefined ? "" : tokens.write(last.position) };
}
