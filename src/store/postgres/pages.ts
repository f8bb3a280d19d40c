import type { Entry, Range } from "../contract.ts";
import { after } from "../keys.ts";
import type { SqlQuery } from "./connections.ts";

/** A range, or the rest of one; without an end, everything from its start. */
export interface KeySpan extends Omit<Range, "to"> {
  readonly to: string | undefined;
}

/** A page of a span. */
export interface EntryPage {
  readonly entries: readonly Entry[];
  /** Undefined if the span is complete. */
  readonly rest: KeySpan | undefined;
}

const pageEntries = 2_000;
const pageBytes = 4 * 1024 * 1024;

type PageRow = readonly [key: Buffer, value: Buffer, revision: number];

export const entryOf = ([key, value, revision]: PageRow): Entry => ({ key: key.toString(), value, revision });

export const everything: KeySpan = { from: "", to: undefined, limit: Number.MAX_SAFE_INTEGER };

/**
 * The first rows from a key on, of deleted keys too; $1 is the key, $3 their number. The end of a range is applied to
 * the result: with both bounds, a server that has not analyzed the table since an import expects few rows, and sorts the
 * whole range for each page.
 */
export const firstOfSql = (schema: string): string =>
  `select key, value from ${schema}.entry where key >= $1 order by key limit $3`;

/** Reads the first entries of a span, as of one moment; limited so that neither side waits long. */
export async function readPage(query: SqlQuery, schema: string, span: KeySpan): Promise<EntryPage> {
  const { from, to, limit, reverse = false } = span;
  const order = reverse ? "order by key desc" : "order by key";
  const asked = Math.min(limit, pageEntries);
  const rows = await query<PageRow>(
    // The server knows the length of a value without reading the value.
    `select key, value, revision from (
      select key, value, revision,
        sum(octet_length(value)) over (${order} rows unbounded preceding) - octet_length(value) as bytes_before
      from (
        select key, value, revision from ${schema}.entry
        where key >= $1 and ($2::bytea is null or key < $2) and value is not null ${order} limit $3
      ) as found
    ) as measured where bytes_before < ${pageBytes} ${order}`,
    [Buffer.from(from), to === undefined ? undefined : Buffer.from(to), asked],
  );
  const entries = rows.map(entryOf);
  const bytes = entries.reduce((sum, { value }) => sum + value.length, 0);
  const last = entries.at(-1)?.key;
  const isAll = last === undefined || (entries.length < asked && bytes < pageBytes) || entries.length >= limit;
  if (isAll) return { entries, rest: undefined };
  const left = limit - entries.length;
  return { entries, rest: reverse ? { ...span, to: last, limit: left } : { ...span, from: after(last), limit: left } };
}

/** Reads all pages of a span. Outside a transaction, each page is as of its own moment. */
export async function* readPages(query: SqlQuery, schema: string, span: KeySpan): AsyncGenerator<readonly Entry[]> {
  for (let rest: KeySpan | undefined = span; rest !== undefined; ) {
    const page: EntryPage = await readPage(query, schema, rest);
    if (page.entries.length > 0) yield page.entries;
    rest = page.rest;
  }
}
