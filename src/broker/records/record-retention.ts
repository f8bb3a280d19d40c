import { fromBinary } from "@bufbuild/protobuf";
import type { World } from "../../base/world.ts";
import { DeletedRecordSchema, type RecordModel } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Change, type Condition, type Entry, StaleWrite, type Store } from "../../store/contract.ts";
import { partsOf } from "../../store/keys.ts";
import type { Lease } from "../../store/leases.ts";
import { droppedConnections } from "../connections/connection-collections.ts";
import {
  deletedRecordsUntil,
  droppedSpaceKey,
  droppedSpaces,
  type RecordCollections,
  recordKey,
  recordModelsUntouchedSince,
  recordPlaceKey,
  recordPlacesUnder,
  recordsUnder,
} from "./record-collections.ts";
import { dropped, placeIn, touchEveryMs } from "./record-commits.ts";

interface RecordSweepRequest {
  readonly maxAgeMs: number;
  readonly nowMs: number;
  readonly lease: Pick<Lease, "fence">;
  /** Stops the sweep between two commits. */
  readonly signal: AbortSignal;
}

/**
 * Removes data that is no longer visible or too old. Too old are records deleted longer ago than the limit, and all
 * records of a model that no run has used for that long. Records that a sync keeps returning stay, however old their
 * last change. Returns the number of removed records.
 */
export type RecordSweep = (request: RecordSweepRequest) => Promise<number>;

const pageSize = 500;
/** Limit for one round, so that other work gets its share of the store. The rest waits for the next round. */
const maxChangesPerRound = 100_000;

interface RecordSweepOptions {
  readonly store: Store;
  readonly collections: RecordCollections;
  readonly world: Pick<World, "now">;
}

/** The changes of one commit; the next step reads again. */
interface SweepStep {
  readonly changes: readonly Change[];
  readonly conditions?: readonly Condition[];
  readonly removed: number;
}

/** Returns the next step; undefined if nothing is left to do. */
type NextStep = (options: RecordSweepOptions, request: RecordSweepRequest) => Promise<SweepStep | undefined>;

export function createRecordSweep(options: RecordSweepOptions): RecordSweep {
  const { store } = options;
  return async (request) => {
    const { lease, signal } = request;
    let removed = 0;
    let written = 0;
    for (const nextStep of [deletedStep, untouchedStep, connectionStep, spaceStep]) {
      while (!signal.aborted && written < maxChangesPerRound) {
        const step = await nextStep(options, request);
        if (step === undefined) break;
        try {
          await store.commit(step.changes, [lease.fence, ...(step.conditions ?? [])]);
        } catch (error) {
          // A run committed first, or another replica sweeps now: the next round continues.
          if (!(error instanceof StaleWrite)) throw error;
          break;
        }
        removed += step.removed;
        written += step.changes.length;
      }
    }
    return removed;
  };
}

/** Removes records that were deleted long ago, of one model at a time. */
const deletedStep: NextStep = async ({ store, collections: { recordModels } }, { nowMs, maxAgeMs }) => {
  const found = await store.list({ ...deletedRecordsUntil(nowMs - maxAgeMs), limit: pageSize });
  const [first] = found;
  if (first === undefined) return undefined;
  const { connectionNumber, model, variant } = fromBinary(DeletedRecordSchema, first.value);
  const space = spaceOf(first);
  const ofSpace = found.filter((entry) => spaceOf(entry) === space);
  const stored = await recordModels.get(String(connectionNumber), model, variant);
  const marks: Change[] = ofSpace.map(({ key }) => ({ key, value: undefined }));
  // The records were removed in another way, or will be.
  if (stored === undefined || stored.value.space !== space) return { changes: marks, removed: 0 };
  const keys = ofSpace.map(({ key }) => recordPlaceKey(space, partsOf(key)[3] ?? ""));
  const places = await store.getMany(keys);
  const records = places.flatMap((entry) => {
    if (entry === undefined) return [];
    const { sequence, deletedMs } = placeIn(entry);
    return deletedMs === 0 ? [] : [entry.key, recordKey(space, sequence)];
  });
  const changes = [...marks, ...records.map((key) => ({ key, value: undefined }))];
  return { changes, conditions: [recordModels.unchanged(stored)], removed: records.length / 2 };
};

/** Drops everything in a model that no run has used. */
const untouchedStep: NextStep = async ({ store, collections: { recordModels }, world }, { nowMs, maxAgeMs }) => {
  const found = await store.list({ ...recordModelsUntouchedSince(nowMs - maxAgeMs - touchEveryMs), limit: 1 });
  const [key] = found.map((entry) => partsOf(entry.key).slice(2));
  const before = key === undefined ? undefined : await recordModels.get(...key);
  if (before === undefined) return undefined;
  const { model, changes } = dropped(before.value, world);
  // Keeps the model and its sequence number, since readers have cursors.
  const after: RecordModel = { ...before.value, ...model, touchedMs: 0 };
  return { changes: [...recordModels.change({ before, after }), ...changes], removed: 0 };
};

/** Handles deleted connections: each of their models becomes a dropped space. */
const connectionStep: NextStep = async ({ store, collections: { recordModels } }) => {
  const markers = await store.list({ ...droppedConnections, limit: pageSize });
  if (markers.length === 0) return undefined;
  const changes: Change[] = [];
  for (const { key, revision } of markers) {
    const [, number = ""] = partsOf(key);
    const models = await recordModels.page({ under: [number], limit: pageSize });
    for (const before of models) {
      changes.push(...recordModels.change({ before, after: undefined }));
      changes.push({ key: droppedSpaceKey(before.value.space), value: new Uint8Array() });
    }
    if (models.length < pageSize) changes.push({ key, value: undefined, expect: revision });
    if (changes.length >= pageSize) break;
  }
  return { changes, removed: 0 };
};

/** Removes the data of dropped spaces, one after another. */
const spaceStep: NextStep = async ({ store }) => {
  const [marker] = await store.list({ ...droppedSpaces, limit: 1 });
  if (marker === undefined) return undefined;
  const [, space = ""] = partsOf(marker.key);
  // Removes records before their places: a reader that finds a place without a record then sees that all are dropped.
  const records = await store.list({ ...recordsUnder(space), limit: pageSize });
  const places =
    records.length < pageSize
      ? await store.list({ ...recordPlacesUnder(space), limit: pageSize - records.length })
      : [];
  const isAll = records.length + places.length < pageSize;
  const removed = [...records, ...places, ...(isAll ? [marker] : [])];
  return { changes: removed.map(({ key }) => ({ key, value: undefined })), removed: records.length };
};

const spaceOf = ({ key }: Entry): string => partsOf(key)[2] ?? "";
