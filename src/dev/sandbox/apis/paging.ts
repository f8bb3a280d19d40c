import { numberIn, refuse } from "../call.ts";

interface PageQuery {
  readonly query: URLSearchParams;
  /** The query parameter with the page size, its maximum, and its default. */
  readonly size: { readonly name: string; readonly most: number; readonly otherwise: number };
}

/** Returns one page of a list, and the token of the next: the position where this page ends. */
export function pageOf<T>(
  items: readonly T[],
  { query, size }: PageQuery,
): { page: readonly T[]; nextPageToken?: string } {
  const length = numberIn(query, size.name, { least: 1, most: size.most, otherwise: size.otherwise });
  const token = query.get("pageToken");
  const from = token === null ? 0 : positionOf(token);
  const to = from + length;
  return {
    page: items.slice(from, to),
    ...(to < items.length ? { nextPageToken: Buffer.from(`page:${to}`).toString("base64url") } : {}),
  };
}

function positionOf(token: string): number {
  const [, position] = /^page:(\d{1,9})$/.exec(Buffer.from(token, "base64url").toString("latin1")) ?? [];
  if (position === undefined) throw refuse(400, "invalid", "Invalid value for pageToken.");
  return Number(position);
}
