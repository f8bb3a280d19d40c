import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Fault, type Mistake } from "../../base/fault.ts";
import { sequentialId } from "../../base/ids.ts";
import { bytesFor } from "../../base/message-bytes.ts";
import type { World } from "../../base/world.ts";
import { baseVariant, nameMistake, type RecordAction } from "../../core/scripts/record-change.ts";
import {
  DeletedRecordSchema,
  type RecordModel,
  RecordModelSchema,
  type RecordPlace,
  RecordPlaceSchema,
  type StoredRecord,
  StoredRecordSchema,
} from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import { type Change, type Condition, type Entry, StaleWrite, type Store } from "../../store/contract.ts";
import type { StoredRecordOf } from "../../store/records.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { Connections } from "../connections/connections.ts";
import {
  deletedRecordKey,
  droppedSpaceKey,
  type RecordCollections,
  recordKey,
  recordPlaceKey,
} from "./record-collections.ts";
import { digestText, type RecordDigests } from "./record-digests.ts";

/** Identifies the records of one model and variant of a connection. */
export interface RecordScope {
  readonly connection: ConnectionRef;
  readonly model: string;
  /** Empty: `base`. */
  readonly variant: string;
  /** The number of the connection when the run began. A connection recreated under the same ID is not changed. */
  readonly connectionNumber?: number;
}

/** Conditions of each commit besides the records themselves: the lease of the replica that runs syncs. */
export interface RecordWriteOptions {
  readonly conditions?: readonly Condition[];
}

/** A record that moves to the end of its model's changes. */
export interface RecordMove {
  readonly digest: Buffer;
  readonly id: string;
  readonly before: RecordPlace | undefined;
  readonly action: RecordAction;
  readonly data: Uint8Array;
  readonly dataHash: Uint8Array;
  /** The time when a record that is now deleted was pruned. */
  readonly prunedMs?: number;
}

/**
 * The state that a decision is based on. Each change of records also changes their model, so of two concurrent commits
 * one is refused.
 */
export interface RecordCommitContext {
  readonly digests: RecordDigests;
  readonly model: RecordModel;
  readonly connectionNumber: number;
  /** Time of the commit, never before the previous change: sequence numbers and times have the same order. */
  readonly nowMs: number;
  /** Returns the known places of these digests, in the same order. */
  placesOf(digests: readonly Buffer[]): Promise<readonly (RecordPlace | undefined)[]>;
}

export interface RecordDecision<T> {
  readonly moves?: readonly RecordMove[];
  /** Other changes, and their effect on the model. */
  readonly changes?: readonly Change[];
  readonly model?: Partial<Pick<RecordModel, "space" | "count" | "prunedTo">>;
  /** The change comes from a reader, not from a run. */
  readonly isReaders?: true;
  readonly result: T;
}

export interface RecordCommits {
  /** Reads, decides and commits, and repeats after a conflict. Rejects with `StaleWrite` if a condition fails. */
  commit<T>(
    of: RecordScope,
    writing: RecordWriteOptions,
    decide: (context: RecordCommitContext) => Promise<RecordDecision<T>> | RecordDecision<T>,
  ): Promise<T>;
}

interface RecordCommitsOptions {
  readonly store: Store;
  readonly collections: ConnectionCollections & RecordCollections;
  readonly connections: Pick<Connections, "get">;
  readonly digests: () => Promise<RecordDigests>;
  readonly world: World;
}

/** The last-used time of a model is stored at most this often. */
export const touchEveryMs = 3_600_000;

export function createRecordCommits(options: RecordCommitsOptions): RecordCommits {
  const { store, collections, connections, digests: digestsOf, world } = options;
  const { recordModels } = collections;

  async function placesOf(space: string, digests: readonly Buffer[]): Promise<readonly (RecordPlace | undefined)[]> {
    if (digests.length === 0) return [];
    const found = await store.getMany(digests.map((digest) => recordPlaceKey(space, digestText(digest))));
    return found.map((entry) => (entry === undefined ? undefined : placeIn(entry)));
  }

  return {
    async commit(of, { conditions = [] }, decide) {
      requireNames(of);
      const { model: name, variant } = of;
      const digests = await digestsOf();
      for (;;) {
        // Reads the model in parallel with the connection: a run knows the connection's number.
        const expected = of.connectionNumber === undefined ? undefined : modelParts(of, of.connectionNumber);
        const [connection, early] = await Promise.all([
          connections.get(of.connection),
          expected === undefined ? undefined : recordModels.get(...expected),
        ]);
        const { number: connectionNumber } = connection.value;
        if (of.connectionNumber !== undefined && of.connectionNumber !== connectionNumber) {
          throw new Fault("unknown_connection", `the connection "${of.connection.id}" was deleted and created again`);
        }
        const before = expected === undefined ? await recordModels.get(...modelParts(of, connectionNumber)) : early;
        const model = before?.value ?? newModel({ connectionNumber, model: name, variant: variantOf(variant) }, world);
        const nowMs = Math.max(world.now(), model.changedMs);
        const context: RecordCommitContext = {
          digests,
          model,
          connectionNumber,
          nowMs,
          placesOf: (all) => (before === undefined ? placesOf("", []) : placesOf(model.space, all)),
        };
        const { result, ...decided } = await decide(context);
        const changes = changesFor(before, context, decided);
        if (changes.length === 0) return result;
        try {
          await store.commit(changes, [...conditions, collections.connections.unchanged(connection)]);
          return result;
        } catch (error) {
          // Any other conflict means that another commit succeeded, so this loop ends.
          if (!(error instanceof StaleWrite) || conditions.some((one) => isAbout(one, error.key))) throw error;
        }
      }
    },
  };

  function changesFor(
    before: StoredRecordOf<RecordModel> | undefined,
    { model, nowMs }: RecordCommitContext,
    { moves = [], changes = [], model: next = {}, isReaders }: Omit<RecordDecision<unknown>, "result">,
  ): Change[] {
    const isTouched = isReaders || (before !== undefined && nowMs - model.touchedMs < touchEveryMs);
    if (moves.length + changes.length + Object.keys(next).length === 0 && isTouched) return [];
    let { sequence, count } = model;
    const moved: Change[] = [];
    for (const move of moves) {
      sequence += 1n;
      count += countedBy(move);
      moved.push(...changesOfMove(move, { model, sequence, nowMs }));
    }
    const after: RecordModel = {
      ...model,
      sequence,
      count,
      ...next,
      changedMs: moves.length > 0 ? nowMs : model.changedMs,
      touchedMs: isTouched ? model.touchedMs : nowMs,
    };
    return [...recordModels.change({ before, after }), ...moved, ...changes];
  }
}

const modelParts = ({ model, variant }: RecordScope, connectionNumber: number): readonly string[] => [
  String(connectionNumber),
  model,
  variantOf(variant),
];

export const variantOf = (variant: string): string => (variant === "" ? baseVariant : variant);

export function requireNames({ model, variant }: Pick<RecordScope, "model" | "variant">): void {
  const mistakes: Mistake[] = Object.entries({ model, variant: variantOf(variant) }).flatMap(([field, name]) => {
    const message = nameMistake(name);
    return message === undefined ? [] : [{ path: [field], message }];
  });
  if (mistakes.length > 0)
    throw new Fault("invalid_body", "the name of the model or variant is not valid", { mistakes });
}

export const placeIn = ({ value }: Entry): RecordPlace => fromBinary(RecordPlaceSchema, value);

/** Returns a new space each time, so leftover data of a former space is never read. */
export const newSpace = ({ now }: Pick<World, "now">): string => sequentialId(now());

const newModel = (
  at: Pick<RecordModel, "connectionNumber" | "model" | "variant">,
  world: Pick<World, "now">,
): RecordModel => create(RecordModelSchema, { ...at, space: newSpace(world) });

/**
 * Drops everything in one commit; the records are removed later. Sequence numbers continue, and readers' cursors work.
 */
export const dropped = ({ space, sequence }: RecordModel, world: Pick<World, "now">) => ({
  model: { space: newSpace(world), count: 0n, prunedTo: sequence },
  changes: [{ key: droppedSpaceKey(space), value: new Uint8Array() }],
});

function countedBy({ before, action }: RecordMove): bigint {
  const [was, is] = [before !== undefined && before.deletedMs === 0, action !== "DELETED"];
  if (was === is) return 0n;
  return is ? 1n : -1n;
}

interface RecordMoveContext {
  readonly model: RecordModel;
  readonly sequence: bigint;
  readonly nowMs: number;
}

function changesOfMove(move: RecordMove, { model, sequence, nowMs }: RecordMoveContext): Change[] {
  const { digest, id, before, action, data, dataHash, prunedMs = 0 } = move;
  const { space, connectionNumber, model: name, variant } = model;
  const at = digestText(digest);
  const firstSeenMs = before === undefined || action === "ADDED" ? nowMs : before.firstSeenMs;
  const deletedMs = action === "DELETED" ? nowMs : 0;
  // Object literals: constructing messages costs more than encoding them.
  const record: StoredRecord = {
    $typeName: "latchkey.stored.v1.StoredRecord",
    id,
    data,
    lastAction: action,
    firstSeenMs,
    lastModifiedMs: nowMs,
    deletedMs,
    prunedMs,
  };
  const place: RecordPlace = {
    $typeName: "latchkey.stored.v1.RecordPlace",
    sequence,
    dataHash,
    firstSeenMs,
    deletedMs,
  };
  const changes: Change[] = [
    {
      key: recordKey(space, sequence),
      value: bytesOfRecord(record),
      secret: true,
    },
    {
      key: recordPlaceKey(space, at),
      value: bytesOfPlace(place),
      secret: true,
    },
  ];
  if (before !== undefined) changes.push({ key: recordKey(space, before.sequence), value: undefined });
  if (before !== undefined && before.deletedMs > 0) {
    changes.push({ key: deletedRecordKey(before.deletedMs, space, at), value: undefined });
  }
  if (deletedMs > 0) {
    const value = toBinary(
      DeletedRecordSchema,
      create(DeletedRecordSchema, { connectionNumber, model: name, variant }),
    );
    changes.push({ key: deletedRecordKey(deletedMs, space, at), value });
  }
  return changes;
}

const bytesOfRecord = bytesFor(StoredRecordSchema);
const bytesOfPlace = bytesFor(RecordPlaceSchema);

const isAbout = (condition: Condition, key: string): boolean =>
  "empty" in condition ? key >= condition.empty.from && key < condition.empty.to : condition.key === key;
