import type { JsonValue } from "@bufbuild/protobuf";
import { invalidParams } from "./protocol.ts";

const pageSize = 100;

interface McpListPage<T> {
  readonly items: readonly T[];
  /** Undefined: the page is the last. */
  readonly nextCursor: string | undefined;
}

/** Returns a page of a list. Throws `RpcFailure` for a cursor that no page had. */
export function pageOf<T>(all: readonly T[], cursor: JsonValue | undefined): McpListPage<T> {
  const from = cursor === undefined ? 0 : Number(typeof cursor === "string" && /^\d{1,9}$/.test(cursor) ? cursor : -1);
  if (from < 0 || (from > 0 && from >= all.length)) throw invalidParams("`cursor` must be the `nextCursor` of a page");
  const end = from + pageSize;
  return { items: all.slice(from, end), nextCursor: end < all.length ? String(end) : undefined };
}
