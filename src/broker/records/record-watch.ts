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
  const { recordModels } = collections;

  async function placeOf({ connection, model, variant }: RecordScope): Promise<readonly string[]> {
    const { number } = (await connections.get(connection)).value;
    return [String(number), model, variantOf(variant)];
  }

  const stateOf = async (place: readonly string[]) => recordState((await recordModels.get(...place))?.value);

  return async (of) => {
    const places = await Promise.all(of.map(placeOf));
    const keys = places.map((place) => keyOf(recordModels.name, ...place));
    /** Keys of models that commits have touched. A model may be in the list several times. */
    const touched = new Set<string>();
    let watch: Watch | undefined;
    let isLost = false;
    let isClosed = false;

    async function begin(): Promise<void> {
      isLost = false;
      const begun = await store.watch(store.status().revision, {
        spaces: [recordModels.name],
        onCommit({ changes }) {
          for (const { key } of changes) if (keys.includes(key)) touched.add(key);
        },
        onLost() {
          isLost = true;
        },
      });
      if (isClosed) begun.close();
      else watch = begun;
    }

    await begin();
    const states = await Promise.all(places.map(stateOf)).catch((error: unknown) => {
      watch?.close();
      throw error;
    });
    world.metrics.watchers.inc();
    return {
      async taken() {
        if (isLost) {
          await begin();
          for (const key of keys) touched.add(key);
        }
        if (touched.size === 0) return [];
        const looked = [...keys.keys()].filter((n) => touched.has(keys[n] ?? ""));
        touched.clear();
        const found = await Promise.all(looked.map((n) => stateOf(places[n] ?? [])));
        // A run that changes nothing notes that it has used the model.
        const changed = looked.filter((n, i) => states[n] !== found[i]);
        for (const [i, n] of looked.entries()) states[n] = found[i] ?? "";
        return changed;
      },
      close() {
        isClosed = true;
        watch?.close();
        world.metrics.watchers.dec();
      },
    };
  };
}

/** Differs after each change of the records that a reader gets. */
const recordState = (model: RecordModel | undefined): string =>
  model === undefined ? "" : [model.space, model.sequence, model.count, model.prunedTo].join(" ");
