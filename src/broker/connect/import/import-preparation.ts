import { Fault } from "../../../base/fault.ts";
import type { Connection, ConnectionImport, ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import { requireRevision } from "../../stored/conflict.ts";
import type { AuthorizedImport } from "./authorized-import.ts";
import type { MergeImport, PendingImport } from "./import-merge.ts";
import { faultOfImport } from "./import-rules.ts";
import type { ImportState, ImportTarget } from "./import-state.ts";

/** An item of a bulk import. */
export interface BulkItem {
  readonly item: ConnectionImport;
  /** Runs the same hooks as for a single import. */
  readonly runHooks: boolean;
}

export interface NamedItem extends BulkItem {
  readonly ref: ConnectionRef;
}

/** A batch that is ready to be stored. */
interface PreparedImports {
  /** Each connection once. */
  readonly batch: readonly PendingImport[];
  /** In the order of the items. */
  readonly outcomes: readonly (PendingImport | Fault)[];
}

/** Validates and merges each item; later items of one connection build on earlier ones. */
export type PrepareImports = (
  items: readonly NamedItem[],
  state: ImportState,
  authorized: AuthorizedImport | undefined,
) => Promise<PreparedImports>;

export function createPrepareImports(merge: MergeImport): PrepareImports {
  return async (items, state, authorized) => {
    const batch: PendingImport[] = [];
    /** Places in the batch by ID. An integration has one target. */
    const places = new Map<ImportTarget, Map<string, number>>();
    const outcomes: (PendingImport | Fault)[] = [];
    for (let i = 0; i < items.length; i += 1) {
      const one = items[i];
      if (one === undefined) continue;
      const { ref, runHooks, item: given } = one;
      const target = state.targetOf(ref);
      if (target instanceof Fault) {
        outcomes.push(target);
        continue;
      }
      const placesOf = places.get(target) ?? new Map<string, number>();
      places.set(target, placesOf);
      const place = placesOf.get(ref.id) ?? batch.length;
      const earlier = batch[place];
      const before = state.connections[i];
      const base = earlier?.after ?? before?.value;
      if (authorized?.isAgain === true && base === undefined) throw connectionGone(ref);
      // A link for a new connection must not replace one that exists by now.
      if (authorized?.isAgain === false && base !== undefined) throw connectionThere(ref);
      const item = authorized === undefined ? given : withGrant(given, base, authorized);
      const fault = faultOfImport(item, { ...target, base }) ?? conflictOf(item, before);
      if (fault !== undefined) {
        outcomes.push(fault);
        continue;
      }
      const merged = merge({
        item,
        ref,
        target,
        before,
        base,
        authorized,
        runHooks: runHooks || earlier?.runHooks === true,
        record: state.refreshRecords[i],
        description: state.descriptions[i],
      });
      // A promise for each of thousands of items would cost more than its merge.
      const pending = merged instanceof Promise ? await merged : merged;
      batch[place] = pending;
      if (earlier === undefined) placesOf.set(ref.id, place);
      outcomes.push(pending);
    }
    return { batch, outcomes };
  };
}

const connectionGone = ({ id }: ConnectionRef) =>
  new Fault("unknown_connection", `the connection "${id}" was deleted before it could be authorized again`);

const connectionThere = ({ id }: ConnectionRef) =>
  new Fault("already_exists", `the connection "${id}" exists by now; ask for a link to connect it again`);

/** Merges the authorization's values into the existing connection: only named values change. */
function withGrant(
  item: ConnectionImport,
  base: Connection | undefined,
  { metadata, connectionConfig }: AuthorizedImport,
): ConnectionImport {
  return {
    ...item,
    ...(Object.keys(metadata).length === 0 ? {} : { metadata: { ...base?.metadata, ...metadata } }),
    connectionConfig: { ...base?.connectionConfig, ...connectionConfig },
  };
}

function conflictOf(
  { expectedRevision }: ConnectionImport,
  before: StoredRecordOf<Connection> | undefined,
): Fault | undefined {
  try {
    requireRevision(before, expectedRevision);
    return undefined;
  } catch (error) {
    return Fault.from(error);
  }
}
