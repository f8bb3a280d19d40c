import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../../base/world.ts";
import { type LookupFiling as Filing, LookupFilingSchema } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { type ConnectionRef, ConnectionRefSchema } from "../../../gen/latchkey/v1/connection_pb.ts";
import { StaleWrite, type Store } from "../../../store/contract.ts";
import type { Lease } from "../../../store/leases.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import type { ConnectionCollections } from "../connection-collections.ts";
import type { IntegrationName } from "../integration-name.ts";
import { lookupForm } from "./connection-lookups.ts";
import { type LookupPage, readLookupPage } from "./reindex-pages.ts";
import { isFiledBy, type ReindexWork } from "./reindex-plan.ts";

/** Writes the lookup keys of all connections of one provider again. */
interface ReindexRunOptions {
  readonly store: Store;
  readonly collections: Pick<ConnectionCollections, "connections" | "lookupFilings">;
  readonly areRowsWritten: () => boolean;
  readonly lease: Lease;
  readonly leaseMs: number;
  readonly work: ReindexWork;
  /** The fields have changed again, or the process ends. */
  readonly isOver: () => boolean;
  readonly world: World;
}

type ReindexState = Pick<Filing, "provider" | "fields" | "form" | "walksLeft"> &
  Partial<Pick<Filing, "after" | "notBefore">>;

/** After this time no replica writes by the old fields: neither an older version nor one that missed the change. */
const secondRunMs = 15 * 60_000;

/** Returns false if it was ended before all connections were done. */
export async function runReindex(options: ReindexRunOptions): Promise<boolean> {
  const { store, collections, lease, leaseMs, work, isOver, world } = options;
  const { connections, lookupFilings } = collections;
  const { provider, wanted, integrations } = work;
  const fields = { provider, fields: [...wanted], form: lookupForm };
  let filing = work.stored;

  async function save(state: ReindexState, page?: Pick<LookupPage, "changes" | "conditions">): Promise<void> {
    const value = create(LookupFilingSchema, state);
    const changes = [...(page?.changes ?? []), ...lookupFilings.change({ before: filing, after: value })];
    const revision = await store.commit(changes, [...(page?.conditions ?? []), lease.fence]);
    filing = { value, revision, bytes: 0 } satisfies StoredRecordOf<Filing>;
  }

  /** Indexes the connections of one integration, page by page. False: ended before the last page. */
  async function fileIntegration({ environment, integration }: IntegrationName): Promise<boolean> {
    const done = filing?.value.after;
    let from = done?.environment === environment && done.integration === integration ? done.id : undefined;
    for (;;) {
      if (lease.remainingMs() < leaseMs / 2) await lease.renew();
      if (isOver()) return false;
      const page = await readLookupPage({
        store,
        connections,
        integration: { environment, integration },
        wanted,
        areRowsWritten: options.areRowsWritten(),
        from,
      });
      const after = create(ConnectionRefSchema, { environment, integration, id: page.last ?? from ?? "" });
      try {
        const { walksLeft = 0 } = filing?.value ?? {};
        if (page.changes.length > 0) await save({ ...fields, walksLeft, after }, page);
      } catch (error) {
        if (!(error instanceof StaleWrite)) throw error;
        // A connection changed in the meantime: read the page again. `renew` throws if another replica has the lease.
        await lease.renew();
        continue;
      }
      if (page.last === undefined) return true;
      from = page.last;
    }
  }

  if (!isFiledBy(wanted, filing?.value)) {
    await save({ ...fields, walksLeft: 2 });
    world.log.info("lookup fields of a provider changed; writing the lookup keys of its connections again", {
      provider,
    });
  }
  for (const integration of integrations) {
    const done = filing?.value.after;
    if (done !== undefined && isBefore(integration, done)) continue;
    if (!(await fileIntegration(integration))) return false;
  }
  const walksLeft = Math.max(0, (filing?.value.walksLeft ?? 1) - 1);
  const notBefore = walksLeft === 0 ? {} : { notBefore: timestampFromMs(world.now() + secondRunMs) };
  await save({ ...fields, walksLeft, ...notBefore });
  return true;
}

/** Whether all connections of an integration sort before this one. Names are ASCII and sort as they are stored. */
const isBefore = ({ environment, integration }: IntegrationName, before: ConnectionRef): boolean =>
  environment === before.environment ? integration < before.integration : environment < before.environment;
