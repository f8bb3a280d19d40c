import { create } from "@bufbuild/protobuf";
import type { World } from "../../../base/world.ts";
import type { Lookup } from "../../../core/notifications/notification.ts";
import { LookupRowsSchema } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import { type Store, StoreUnavailable } from "../../../store/contract.ts";
import type { ConnectionCollections } from "../connection-collections.ts";
import type { IntegrationName } from "../integration-name.ts";
import { type LookupField, lookupDigest } from "./connection-lookups.ts";
import type { Owner } from "./indexed-owners.ts";
import type { LookupRowsState } from "./lookup-rows-state.ts";
import { type MemoryMatches, openMemoryMatches } from "./memory-matches.ts";
import { openStoredMatches, type StoredMatches } from "./stored-matches.ts";

/** Finds the connections that a notification concerns: in memory, or in the store if the index is too large. */
export interface LookupIndex {
  /**
   * Returns the first rule that matches any connection, with all its matches, by ID. No match: rule -1, and no matches.
   */
  match(at: IntegrationName, lookups: readonly Lookup[]): LookupMatch | Promise<LookupMatch>;
  close(): void;
}

export interface LookupMatch {
  readonly rule: number;
  readonly matches: readonly ConnectionRef[];
}

export interface LookupIndexOptions {
  readonly store: Store;
  readonly lookupRows: ConnectionCollections["lookupRows"];
  readonly rows: LookupRowsState;
  /** Above this size, connections are looked up in the store. */
  readonly mostBytes: number;
  readonly world: World;
}

/** An answer in memory takes about 300 bytes: a sixth of the limit. */
const bytesPerAnswer = 2_048;
const fewestAnswers = 1_024;

export async function openLookupIndex(options: LookupIndexOptions): Promise<LookupIndex> {
  const { store, rows, mostBytes, world } = options;
  const most = Math.max(fewestAnswers, Math.floor(mostBytes / bytesPerAnswer));
  let memory: MemoryMatches | undefined;
  let stored: StoredMatches | undefined;
  let moving: Promise<void> | undefined;
  let isClosed = false;
  const wish = createRowsWish(options);

  async function useMemory(): Promise<void> {
    const opened = await openMemoryMatches({ store, world, onChange: () => weigh() });
    memory = opened;
    stored?.close();
    stored = undefined;
  }

  async function useStore(): Promise<void> {
    // Memory answers until the store's changes are followed.
    stored = await openStoredMatches({ store, world, most });
    memory?.close();
    memory = undefined;
  }

  /** Moves between memory and store where that is needed and possible now. */
  function weigh(): void {
    if (moving !== undefined || isClosed) return;
    // A store that lost its last commits may have lost rows as well.
    if (memory === undefined) {
      if (!rows.isComplete) move(useMemory);
    } else if (memory.bytes > mostBytes) {
      wish(memory.bytes);
      if (rows.isComplete) move(useStore);
    }
  }

  function move(use: () => Promise<void>): void {
    moving = use()
      .catch((err: unknown) => world.log.warn("could not move the lookups; will retry with the next change", { err }))
      .finally(() => {
        moving = undefined;
        if (isClosed) close();
        else weigh();
      });
  }

  function close(): void {
    isClosed = true;
    memory?.close();
    stored?.close();
  }

  await (rows.isComplete && rows.bytes > mostBytes ? useStore() : useMemory());
  rows.listen(weigh);
  weigh();

  /** Returns undefined if memory has all lookups again. */
  async function readableRows(): Promise<StoredMatches | undefined> {
    if (memory === undefined && !rows.isComplete) {
      weigh();
      await moving;
      if (memory === undefined) throw new StoreUnavailable("the lookups cannot be read from the store now");
    }
    return memory === undefined ? stored : undefined;
  }

  async function matchStored(at: IntegrationName, lookups: readonly Lookup[]): Promise<LookupMatch> {
    for (const { rule, field, values } of lookups) {
      const source = await readableRows();
      const find = (digest: string) => source?.find(at, digest) ?? memory?.find(digest) ?? [];
      const found = await Promise.all(digestsOf({ ...at, field }, values).map(find));
      const matches = refsOf(found.flat());
      if (matches.length > 0) return { rule, matches };
    }
    return { rule: -1, matches: [] };
  }

  const inMemory = world.metrics.lookups.series({ source: "memory" });
  return {
    match({ environment, integration }, lookups) {
      const source = memory;
      if (source === undefined) return matchStored({ environment, integration }, lookups);
      for (const { rule, field, values } of lookups) {
        const where = { environment, integration, field };
        const found: Owner[] = [];
        for (const value of values) {
          const digest = lookupDigest(where, value);
          if (digest === undefined) continue;
          inMemory.add();
          for (const owner of source.find(digest)) found.push(owner);
        }
        if (found.length > 0) return { rule, matches: refsOf(found) };
      }
      return { rule: -1, matches: [] };
    },
    close,
  };
}

/** Returns a function that asks for rows, or says how large the index is that leaves memory. */
function createRowsWish({ store, lookupRows, rows, world }: LookupIndexOptions): (bytes: number) => void {
  let asking: Promise<void> | undefined;

  async function ask(bytes: number): Promise<void> {
    const before = await lookupRows.get("all");
    if (before === undefined) {
      world.log.info("the index of lookups exceeds its limit; writing lookups to the store", { bytes });
    }
    const { value } = before ?? { value: create(LookupRowsSchema, { walksLeft: 2 }) };
    // Progress is not lost: a commit of the scan in between refuses this one.
    await store.commit(lookupRows.change({ before, after: { ...value, bytes: BigInt(bytes) } }));
  }

  return (bytes) => {
    if (asking !== undefined || (rows.isWritten && (!rows.isComplete || rows.bytes >= bytes))) return;
    asking = ask(bytes)
      .catch((err: unknown) => world.log.debug("lookups not asked for; another commit came first", { err }))
      .finally(() => {
        asking = undefined;
      });
  };
}

const digestsOf = (where: LookupField, values: readonly string[]): readonly string[] =>
  values.flatMap((value) => lookupDigest(where, value) ?? []);

/** A body may hold several notifications: a rule finds the connections of all its values, each once. */
function refsOf(found: readonly Owner[]): readonly ConnectionRef[] {
  if (found.length < 2) return found.map(refOf);
  const byId = new Map(found.map((owner) => [owner.id, owner]));
  return [...byId.values()].sort((one, other) => (one.id < other.id ? -1 : 1)).map(refOf);
}

// An object literal, since `create` takes 1 µs.
const refOf = ({ environment, integration, id }: Owner): ConnectionRef => ({
  $typeName: "latchkey.v1.ConnectionRef",
  environment,
  integration,
  id,
});
