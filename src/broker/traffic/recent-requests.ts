import { setTimeout as sleep } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { type RecentRequest, RecentRequestSchema, type RequestFilter } from "../../gen/latchkey/v1/traffic_pb.ts";
import { pageTokens } from "../stored/page-token.ts";
import type { PageOf, PageOptions } from "../stored/paging.ts";
import { type RequestNote, RequestRing, type RingEntry } from "./request-ring.ts";

/** The last requests of this process, of all environments together. */
export interface RecentRequests {
  /** How many are kept; 0: none. */
  readonly kept: number;
  /** Notes a request that is over. Undefined if none is kept. */
  readonly add: ((request: RequestNote) => void) | undefined;
  list(query: RequestQuery, page: PageOptions): PageOf<RecentRequest>;
  watch(query: RequestQuery, options: RequestWatchOptions): AsyncIterable<RequestBatch>;
}

export interface RequestQuery {
  readonly environment: string;
  readonly filter: RequestConditions;
}

export type RequestConditions = Omit<RequestFilter, "$typeName" | "$unknown">;

export interface RequestBatch {
  readonly requests: readonly RecentRequest[];
  readonly missed: number;
}

interface RequestWatchOptions {
  /** How many recent requests come first. */
  readonly recent: number;
  /** How many are sent each second, the newest ones; 0: all. */
  readonly maxPerSecond: number;
  readonly signal: AbortSignal;
}

/** A watcher looks again so often: noting a request then costs the same with any number of watchers. */
const lookEveryMs = 40;
/** A watcher with a rate looks less often, since each look costs the requests beside it more than what it sends. */
const lookEveryMsWithRate = 250;
const maxWatchers = 100;

interface RingRange {
  readonly from: number;
  readonly to: number;
  readonly most: number;
  readonly query: RequestQuery;
}

interface RecentRequestsOptions extends Pick<World, "now"> {
  readonly size: number;
}

export function createRecentRequests({ size, now }: RecentRequestsOptions): RecentRequests {
  /** Made for the first request: it takes half a megabyte. */
  let made: RequestRing | undefined;
  let watchers = 0;

  function add(request: RequestNote): void {
    made ??= new RequestRing(size);
    made.add(request);
  }

  /** Returns the newest of a range that fit, oldest first, and how many more fit. */
  function read(ring: RequestRing, { from, to, most, query }: RingRange) {
    const offset = now() - performance.now();
    const found: RecentRequest[] = [];
    let further = 0;
    for (let number = to; number >= from; number -= 1) {
      const entry = entryOf(ring, number, query);
      if (entry === undefined) continue;
      if (found.length < most) found.push(shown(entry, offset));
      else further += 1;
    }
    return { found: found.reverse(), further };
  }

  return {
    kept: size,
    add: size === 0 ? undefined : add,
    list(query, { size: pageSize, token }) {
      const tokens = pageTokens(["requests", query.environment, query.filter]);
      const before = Number(tokens.read(token) ?? Number.POSITIVE_INFINITY);
      const items: RecentRequest[] = [];
      const ring = made;
      if (ring === undefined) return { items, next: "" };
      const offset = now() - performance.now();
      for (let number = Math.min(ring.newest, before - 1); number >= ring.oldest; number -= 1) {
        const entry = entryOf(ring, number, query);
        if (entry === undefined) continue;
        if (items.length === pageSize) return { items, next: tokens.write(String(number + 1)) };
        items.push(shown(entry, offset));
      }
      return { items, next: "" };
    },
    async *watch(query, { recent, maxPerSecond, signal }) {
      if (watchers === maxWatchers) throw new Fault("too_many_requests", "too many callers watch requests already");
      watchers += 1;
      try {
        let seen = made?.newest ?? 0;
        const first = made === undefined ? [] : read(made, { from: made.oldest, to: seen, most: recent, query }).found;
        yield { requests: first, missed: 0 };
        const everyMs = maxPerSecond === 0 ? lookEveryMs : lookEveryMsWithRate;
        const most = maxPerSecond === 0 ? Number.POSITIVE_INFINITY : Math.ceil((maxPerSecond * everyMs) / 1_000);
        while (!signal.aborted) {
          await sleep(everyMs, undefined, { signal }).catch(() => {});
          const newest = made?.newest ?? 0;
          if (made === undefined || newest === seen) continue;
          const lost = Math.max(0, made.oldest - 1 - seen);
          const { found, further } = read(made, { from: seen + lost + 1, to: newest, most, query });
          seen = newest;
          const missed = lost + further;
          if (found.length > 0 || missed > 0) yield { requests: found, missed };
        }
      } finally {
        watchers -= 1;
      }
    },
  };
}

function entryOf(ring: RequestRing, number: number, { environment, filter }: RequestQuery): RingEntry | undefined {
  if (ring.environmentOf(number) !== environment) return undefined;
  const entry = ring.read(number);
  return fits(entry, filter) ? entry : undefined;
}

function fits({ ref, method, path, status, errorCode, keyId, sinceMs, endMs }: RingEntry, filter: RequestConditions) {
  return (
    (filter.integration === "" || ref.integration === filter.integration) &&
    (filter.connectionId === "" || ref.id === filter.connectionId) &&
    (filter.method === "" || method === filter.method.toUpperCase()) &&
    (filter.path === "" || path.includes(filter.path)) &&
    (filter.status === "" || String(status).startsWith(filter.status)) &&
    (!filter.byLatchkey || errorCode !== "") &&
    endMs - sinceMs >= filter.minMs &&
    (filter.keyId === "" || keyId === filter.keyId)
  );
}

/** `offset` converts the monotonic clock to the wall clock. */
function shown(entry: RingEntry, offset: number): RecentRequest {
  const { number, sinceMs, endMs, ref, up, down, isTunnel, ...rest } = entry;
  const { environment, integration, id } = ref;
  return create(RecentRequestSchema, {
    ...rest,
    number: BigInt(number),
    at: timestampFromMs(Math.round(sinceMs + offset)),
    connection: { environment, integration, id },
    totalMs: endMs - sinceMs,
    bytesUp: BigInt(up),
    bytesDown: BigInt(down),
    tunnel: isTunnel,
  });
}
