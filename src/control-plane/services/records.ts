import { create } from "@bufbuild/protobuf";
import { type Timestamp, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { dataIn, type ListedRecord, type RecordScope } from "../../broker/records/sync-records.ts";
import { depthOf, maxMetadataDepth } from "../../core/connection-rules.ts";
import { idOf, recordActions } from "../../core/scripts/record-change.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import { type Record, RecordSchema, type SyncService } from "../../gen/latchkey/v1/sync_pb.ts";
import { callerOf, pageOf } from "../server/context.ts";
import { maxPageBytes } from "../server/page-bytes.ts";

const defaultPruned = 1_000;
const maxPruned = 10_000;

/** The methods of the sync service that concern records. */
export const recordMethods = ({
  records,
  environments,
}: Pick<Broker, "records" | "environments">): Pick<ServiceImpl<typeof SyncService>, "listRecords" | "pruneRecords"> => {
  async function named(requested: RecordModelName, context: HandlerContext): Promise<RecordScope> {
    const { connection, model, variant } = requested;
    if (connection === undefined) throw new Error("a validated request names its connection");
    const environment = await environments.of(callerOf(context), connection.environment);
    return { connection: { ...connection, environment }, model, variant };
  }

  return {
    async listRecords({ modifiedAfter, actions, ids, ...request }, context) {
      const of = await named(request, context);
      const { size, token } = pageOf(request);
      const { records: found, next } = await records.list(of, {
        cursor: token,
        limit: size,
        actions: actionsOf(actions),
        modifiedAfterMs: msOf(modifiedAfter),
        ids: ids.map(requireId),
        maxBytes: maxPageBytes,
      });
      return { records: found.map(recordOf), nextPageToken: next };
    },
    async pruneRecords({ untilCursor, limit, ...request }, context) {
      const of = await named(request, context);
      const most = Math.min(limit === 0 ? defaultPruned : limit, maxPruned);
      const { count, hasMore } = await records.prune(of, { until: untilCursor, limit: most });
      return { count: BigInt(count), hasMore };
    },
  };
};

interface RecordModelName {
  readonly connection?: ConnectionRef | undefined;
  readonly model: string;
  readonly variant: string;
}

const msOf = (at: Timestamp | undefined): number | undefined => (at === undefined ? undefined : timestampMs(at));

function actionsOf(named: readonly string[]) {
  const known = recordActions.filter((action) => named.includes(action));
  if (known.length === new Set(named).size) return known;
  throw refused("actions", `must be ${recordActions.join(", ")}`);
}

function requireId(id: string): string {
  if (idOf(id) === undefined) throw refused("ids", "must be ids of records");
  return id;
}

const refused = (field: string, message: string): Fault =>
  new Fault("invalid_body", "the filter is not valid", { mistakes: [{ path: [field], message }] });

function recordOf({ record, cursor }: ListedRecord): Record {
  const { id, lastAction, firstSeenMs, lastModifiedMs, deletedMs, prunedMs } = record;
  const data = dataIn(record);
  if (depthOf(data) > maxMetadataDepth) {
    throw new Fault(
      "payload_too_large",
      `the record ${JSON.stringify(id)} is more than ${maxMetadataDepth} levels deep, too deep for protobuf decoders: list it over the JSON API`,
    );
  }
  return create(RecordSchema, {
    id,
    data,
    lastAction,
    cursor,
    firstSeenAt: timestampFromMs(firstSeenMs),
    lastModifiedAt: timestampFromMs(lastModifiedMs),
    ...(deletedMs > 0 && { deletedAt: timestampFromMs(deletedMs) }),
    ...(prunedMs > 0 && { prunedAt: timestampFromMs(prunedMs) }),
  });
}
