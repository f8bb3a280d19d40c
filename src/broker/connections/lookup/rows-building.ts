import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../../base/world.ts";
import { type LookupRows, LookupRowsSchema } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Change, type Condition, type Entry, StaleWrite, type Store } from "../../../store/contract.ts";
import { after as keyAfter, under } from "../../../store/keys.ts";
import { createLeases, type Lease, LeaseLost } from "../../../store/leases.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import { type ConnectionCollections, lookupSpace } from "../connection-collections.ts";
import { digestBytes } from "./digest-postings.ts";
import { lookupRowKeys } from "./lookup-rows.ts";
import type { LookupRowsState } from "./lookup-rows-state.ts";

interface RowsBuildingOptions {
  readonly store: Store;
  readonly lookupRows: ConnectionCollections["lookupRows"];
  readonly rows: LookupRowsState;
  readonly isEnded: () => boolean;
  readonly world: World;
}

const leaseMs = 30_000;
const pageSize = 200;
/** A connection may have 10,000 rows: a page ends after this many. */
const mostRows = 4_000;
const pagesPerSave = 50;
/** After this time no process commits a change that it computed before it knew that rows are written. */
const settleMs = { alone: 10_000, shared: 15 * 60_000 };

/**
 * Returns a function that writes the missing rows of all connections, as far as it can be done now: page by page under
 * a lease, from where the last holder stopped. Rows are computed from the stored digests, so no connection is read.
 */
export function createRowsBuilding({ store, lookupRows, rows, isEnded, world }: RowsBuildingOptions) {
  const leases = createLeases(store);
  const isDue = ({ walksLeft, notBefore }: LookupRows): boolean =>
    walksLeft > 0 && (notBefore === undefined || timestampMs(notBefore) <= world.now());

  async function commit(stored: StoredRecordOf<LookupRows>, step: RowsStep): Promise<StoredRecordOf<LookupRows>> {
    const { value, changes, conditions, lease } = step;
    const progress = lookupRows.change({ before: stored, after: value });
    const revision = await store.commit([...changes, ...progress], [...conditions, lease.fence]);
    world.metrics.lookupRowsScanned.set(Number(value.scanned));
    return { value, revision, bytes: 0 };
  }

  async function build(lease: Lease): Promise<void> {
    let stored = await lookupRows.get("all");
    let unsaved = 0;
    let at = stored?.value.after ?? "";
    let scanned = stored?.value.scanned ?? 0n;
    while (stored !== undefined && isDue(stored.value) && !isEnded()) {
      if (lease.remainingMs() < leaseMs / 2) await lease.renew();
      const page = await readPage(store, at);
      const next = scanned + BigInt(page.count);
      const isSaved = page.isLast || page.changes.length > 0 || unsaved >= pagesPerSave;
      const step = { ...page, lease, value: progressOf(stored.value, { ...page, scanned: next }, world.now()) };
      try {
        if (isSaved) stored = await commit(stored, step);
      } catch (error) {
        if (!(error instanceof StaleWrite)) throw error;
        // A connection changed in the meantime: read the page again. `renew` throws if another replica has the lease.
        await lease.renew();
        stored = await lookupRows.get("all");
        continue;
      }
      unsaved = isSaved ? 0 : unsaved + 1;
      at = isSaved ? stored.value.after : page.last;
      scanned = isSaved ? stored.value.scanned : next;
      if (page.isLast && stored.value.walksLeft === 0) {
        world.log.info("lookups of all connections are in the store; indexes above the limit leave memory");
      }
    }
  }

  function progressOf(before: LookupRows, page: RowsPage & { readonly scanned: bigint }, nowMs: number): LookupRows {
    const { bytes, walksLeft } = before;
    if (!page.isLast) return create(LookupRowsSchema, { bytes, walksLeft, after: page.last, scanned: page.scanned });
    if (walksLeft === 1) return create(LookupRowsSchema, { bytes, scanned: page.scanned });
    const waitMs = store.sessions === undefined ? settleMs.alone : settleMs.shared;
    return create(LookupRowsSchema, { bytes, walksLeft: walksLeft - 1, notBefore: timestampFromMs(nowMs + waitMs) });
  }

  return async (): Promise<void> => {
    if (!rows.isWritten || rows.isComplete) return;
    const waiting = await lookupRows.get("all");
    if (waiting === undefined || !isDue(waiting.value)) return;
    const lease = await leases.take("lookup-rows", leaseMs);
    if (lease === undefined) return;
    try {
      await build(lease);
    } catch (error) {
      // Another replica has the lease and continues.
      if (!(error instanceof LeaseLost)) throw error;
    } finally {
      await lease.release().catch((err: unknown) => {
        world.log.debug("lease not released; it expires by itself", { err });
      });
    }
  };
}

interface RowsPage {
  readonly changes: readonly Change[];
  readonly conditions: readonly Condition[];
  /** Number of connections. */
  readonly count: number;
  readonly last: string;
  readonly isLast: boolean;
}

interface RowsStep extends Pick<RowsPage, "changes" | "conditions"> {
  readonly value: LookupRows;
  readonly lease: Lease;
}

/** Reads lookups after this key, and returns the rows that they lack. */
async function readPage(store: Store, from: string): Promise<RowsPage> {
  const all = under(lookupSpace);
  const found = await store.list({ ...all, from: from === "" ? all.from : keyAfter(from), limit: pageSize });
  const page = someOf(found);
  const rows = page.flatMap((entry) =>
    lookupRowKeys(entry.key.slice(all.from.length), entry.value).map((key) => ({ key, entry })),
  );
  const known = await store.getMany(rows.map(({ key }) => key));
  const missing = rows.filter((_, i) => known[i] === undefined);
  // Lookups that change in between have their rows written by that change.
  const owners = new Set(missing.map(({ entry }) => entry));
  return {
    changes: missing.map(({ key }) => ({ key, value: new Uint8Array() })),
    conditions: [...owners].map(({ key, revision }) => ({ key, expect: revision })),
    count: page.length,
    last: page.at(-1)?.key ?? from,
    isLast: page.length === found.length && found.length < pageSize,
  };
}

function someOf(found: readonly Entry[]): readonly Entry[] {
  let rows = 0;
  const end = found.findIndex(({ value }, i) => {
    rows += value.length / digestBytes;
    return i > 0 && rows > mostRows;
  });
  return end === -1 ? found : found.slice(0, end);
}
