import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { RecordModel } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store, Watch } from "../../store/contract.ts";
import { keyOf } from "../../store/keys.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { Connections } from "../connections/connections.ts";
import type { RecordCollections } from "./record-collections.ts";
import { type RecordScope, variantOf } from "./record-commits.ts";

/** Follows models of connections, and says which of them have other records than before. */
export interface RecordWatch {
  /** Returns the places in the list of those that have changed since the last call, by any process. */
  taken(): Promise<readonly number[]>;
  /** Returns the revision of the last change of a model that was noticed; 0: it has no records. */
  revisionOf(place: number): number;
  close(): void;
}

/** Begins to follow. Rejects if a connection does not exist. */
export type WatchRecords = (of: readonly RecordScope[]) => Promise<RecordWatch>;

interface RecordWatchOptions {
  readonly store: Store;
  readonly collections: ConnectionCollections & RecordCollections;
  readonly connections: Pick<Connections, "get">;
  readonly world: World;
}

export function createRecordWatch({ store, collections, connections, world }: RecordWatchOptions): WatchRecords {
  const models = modelsOf({ collections, connections });
  const connectionSpace = collections.connections.name;

  return async (of) => {
    const connectionKeys = of.map(({ connection: { environment, integration, id } }) =>
      keyOf(connectionSpace, environment, integration, id),
    );
    const watched = await Promise.all(of.map(models.find));
    /** Keys of models and connections that commits have touched. One may be in the list several times. */
    const touched = new Set<string>();
    let watch: Watch | undefined;
    let isLost = false;
    let isClosed = false;

    async function begin(): Promise<void> {
      isLost = false;
      const begun = await store.watch(store.status().revision, {
        spaces: [collections.recordModels.name, connectionSpace],
        onCommit({ changes }) {
          for (const { key } of changes) {
            if (connectionKeys.includes(key) || watched.some((one) => one.key === key)) touched.add(key);
          }
        },
        onLost() {
          isLost = true;
        },
      });
      if (isClosed) begun.close();
      else watch = begun;
    }

    await begin();
    await Promise.all(watched.map((one) => models.look(one, false))).catch((error: unknown) => {
      watch?.close();
      throw error;
    });
    world.metrics.watchers.inc();
    return {
      async taken() {
        if (isLost) {
          await begin();
          for (const key of [...connectionKeys, ...watched.map((one) => one.key)]) touched.add(key);
        }
        if (touched.size === 0) return [];
        const keys = new Set(touched);
        touched.clear();
        const differs = await Promise.all(
          watched.map(async (one, n) => {
            const isOfConnection = keys.has(connectionKeys[n] ?? "");
            return (isOfConnection || keys.has(one.key)) && models.look(one, isOfConnection);
          }),
        );
        return [...differs.keys()].filter((n) => differs[n] === true);
      },
      revisionOf: (place) => watched[place]?.revision ?? 0,
      close() {
        isClosed = true;
        watch?.close();
        world.metrics.watchers.dec();
      },
    };
  };
}

interface WatchedModel {
  readonly scope: RecordScope;
  /** Undefined: the connection was deleted. */
  place: readonly string[] | undefined;
  key: string;
  state: string;
  /** Revision of the model; 0: it has no records. */
  revision: number;
}

/** Finds models of connections, and reads what they hold now. */
function modelsOf({ collections, connections }: Pick<RecordWatchOptions, "collections" | "connections">) {
  const { recordModels } = collections;

  async function placeOf({ connection, model, variant }: RecordScope): Promise<readonly string[]> {
    const { number } = (await connections.get(connection)).value;
    return [String(number), model, variantOf(variant)];
  }

  /** Resolves to undefined for a connection that was deleted. */
  async function placeNow(scope: RecordScope): Promise<readonly string[] | undefined> {
    try {
      return await placeOf(scope);
    } catch (error) {
      if (error instanceof Fault && error.code === "unknown_connection") return undefined;
      throw error;
    }
  }

  const keyAt = (place: readonly string[] | undefined): string =>
    place === undefined ? "" : keyOf(recordModels.name, ...place);

  return {
    /** Rejects if the connection does not exist. */
    async find(scope: RecordScope): Promise<WatchedModel> {
      const place = await placeOf(scope);
      return { scope, place, key: keyAt(place), state: "", revision: 0 };
    },
    /** Reads a model again. Resolves to whether it differs from before. */
    async look(one: WatchedModel, isOfConnection: boolean): Promise<boolean> {
      // The key comes first: what changes while the state is read is noticed.
      if (isOfConnection) one.place = await placeNow(one.scope);
      one.key = keyAt(one.place);
      const { state: before, place } = one;
      const found = place && (await recordModels.get(...place));
      one.revision = found?.revision ?? 0;
      // A connection that was made again under its ID has another number.
      one.state = place === undefined ? "deleted" : `${place[0]} ${recordState(found?.value)}`;
      // A run that changes nothing notes that it has used the model.
      return one.state !== before;
    },
  };
}

/** Differs after each change of the records that a reader gets. */
const recordState = (model: RecordModel | undefined): string =>
  model === undefined ? "" : [model.space, model.sequence, model.count, model.prunedTo].join(" ");
