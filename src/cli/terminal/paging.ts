export interface PageAnswer<T> {
  readonly items: readonly T[];
  /** Empty on the last page. */
  readonly nextPageToken: string;
}

interface Paging<T> {
  readonly fetch: (request: { readonly pageSize: number; readonly pageToken: string }) => Promise<PageAnswer<T>>;
  readonly maxPageSize: number;
  /** Maximum number of items; undefined for all. */
  readonly limit?: number | undefined;
  /** Called when the limit was reached and there is more. */
  readonly onMore?: () => void;
}

/** Fetches page after page. A page may be short or even empty without being the last. */
export async function* pagesOf<T>({
  fetch,
  maxPageSize,
  limit = Infinity,
  onMore,
}: Paging<T>): AsyncGenerator<readonly T[]> {
  let left = limit;
  let pageToken = "";
  while (left > 0) {
    const { items, nextPageToken } = await fetch({ pageSize: Math.min(left, maxPageSize), pageToken });
    yield items;
    left -= items.length;
    if (nextPageToken === "") return;
    pageToken = nextPageToken;
  }
  onMore?.();
}
