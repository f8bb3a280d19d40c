import type { World } from "../../../base/world.ts";
import type { Store, Watch } from "../../../store/contract.ts";
import { follow } from "../../../store/follow.ts";
import type { ConnectionCollections } from "../connection-collections.ts";
import type { LookupFields } from "./lookup-fields.ts";
import { createReindexRound, type ReindexDue } from "./reindex-round.ts";
import { createRowsBuilding } from "./rows-building.ts";

/**
 * Writes the lookup keys of a provider's connections again when the fields that notifications find them by have
 * changed, and rows of lookups once an index is too large for memory. Works in the background, one commit for each page, so an unchanged field finds its connections throughout.
 */
export interface Reindex {
  /** Checks all providers in use now: some may have changed. */
  look(): void;
  /** Runs the work that is otherwise done once a minute; resolves when nothing is left that can be done now. */
  run(): Promise<void>;
  /** Waits for the running commit. */
  close(): Promise<void>;
}

interface ReindexOptions {
  readonly store: Store;
  readonly collections: ConnectionCollections;
  readonly fields: LookupFields;
  readonly world: World;
}

const everyMs = 60_000;

export async function openReindex(options: ReindexOptions): Promise<Reindex> {
  const { store, collections, fields, world } = options;
  const { lookupFilings, lookupRows } = collections;
  let isEnded = false;
  let isBegun = false;
  const due: ReindexDue = { isDue: false };
  /** `look` was called while a round may be about to end. */
  let isRepeated = false;
  let round: Promise<void> | undefined;
  const reindexDue = createReindexRound({ store, collections, fields, due, isEnded: () => isEnded, world });
  const buildRows = createRowsBuilding({ store, lookupRows, rows: fields.rows, isEnded: () => isEnded, world });
  const timer = setInterval(() => void run(), everyMs);
  timer.unref();

  const watch = await followLookupFields({
    store,
    lookupFilings,
    lookupRows,
    fields,
    world,
    onRows() {
      isRepeated = true;
      if (isBegun) void run();
    },
    onProviderChange: () => look(),
    // A new integration has no connections yet: the next round is soon enough.
    onIntegrationChange: () => {
      due.isDue = true;
    },
  });

  function look(): void {
    due.isDue = true;
    isRepeated = true;
    if (isBegun) void run();
  }

  function run(): Promise<void> {
    isBegun = true;
    round ??= rounds();
    return round;
  }

  async function rounds(): Promise<void> {
    try {
      do {
        isRepeated = false;
        await reindexDue();
        await buildRows();
      } while (isRepeated && !isEnded);
    } catch (err) {
      due.isDue = true;
      if (!isEnded) {
        world.log.warn("lookup keys of connections not written; retrying within a minute", { err });
      }
    } finally {
      round = undefined;
    }
  }

  return {
    look() {
      isBegun = true;
      look();
    },
    run,
    async close() {
      clearInterval(timer);
      isEnded = true;
      watch.close();
      await round;
    },
  };
}

interface LookupFieldsWatch extends Pick<ReindexOptions, "store" | "fields" | "world"> {
  readonly lookupFilings: ConnectionCollections["lookupFilings"];
  readonly lookupRows: ConnectionCollections["lookupRows"];
  /** Called when rows were asked for. */
  readonly onRows: () => void;
  readonly onProviderChange: () => void;
  readonly onIntegrationChange: () => void;
}

/** Keeps `fields` in step with the stored ones, and reports changes that may need a reindex. */
function followLookupFields(options: LookupFieldsWatch): Promise<Watch> {
  const { store, lookupFilings, lookupRows, fields, world, onRows, onProviderChange, onIntegrationChange } = options;
  return follow({
    store,
    world,
    spaces: [lookupFilings.name, lookupRows.name, "integration", "provider"],
    async read() {
      const filings = await lookupFilings.page({ under: [], limit: Number.MAX_SAFE_INTEGER });
      const rows = await lookupRows.get("all");
      return () => {
        fields.rows.set(rows?.value);
        for (const { value } of filings) fields.remember(value.provider, value.fields);
        onProviderChange();
      };
    },
    onCommit({ changes, revision }) {
      for (const change of changes) {
        const filing = lookupFilings.read(change, revision)?.value;
        if (filing !== undefined) fields.remember(filing.provider, filing.fields);
        const rows = lookupRows.read(change, revision);
        if (rows !== undefined) {
          const isNew = !fields.rows.isWritten;
          fields.rows.set(rows.value);
          if (isNew) onRows();
        }
        if (change.key.startsWith("integration\0")) onIntegrationChange();
        if (change.key.startsWith("provider\0")) onProviderChange();
      }
    },
  });
}
