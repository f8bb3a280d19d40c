import { create } from "@bufbuild/protobuf";
import { Fault } from "../../../base/fault.ts";
import type { Broker } from "../../../broker/broker.ts";
import type { BulkItem } from "../../../broker/connect/import/import-preparation.ts";
import type { ImportedItem } from "../../../broker/connect/import/imports.ts";
import type { Caller } from "../../../broker/setup/caller.ts";
import { faultOfStore } from "../../../broker/stored/store-fault.ts";
import {
  type ConnectionImport,
  ConnectionImportSchema,
  ConnectionRefSchema,
  type ImportResult,
  ImportResultSchema,
} from "../../../gen/latchkey/v1/connection_pb.ts";
import { type BatchOutcome, outcomeOf } from "../../server/batch.ts";
import { problemOf } from "../../server/errors.ts";
import type { RequireValid } from "../../server/validate.ts";
import { batches, overlapping } from "./import-stream.ts";

export interface ImportItem {
  readonly connection?: ConnectionImport | undefined;
  readonly runHooks: boolean;
  /** It was found valid by the rules in the proto when it was read. */
  readonly isValid?: boolean;
}

/** Imports many connections: each succeeds or fails on its own. */
export interface ItemImports {
  /** Invalid items, and those of an environment that the caller may not access, fail individually. */
  importItems(caller: Caller, items: readonly ImportItem[]): Promise<ImportResult[]>;
  /** Imports the items of a stream, and yields the results in their order, those of a batch together. */
  importStream<T>(caller: Caller, arrivals: ImportArrivals<T>): AsyncIterable<readonly ImportResult[]>;
}

/** What a stream brings, one by one or many at once. */
export interface ImportArrivals<T> {
  readonly come: AsyncIterable<readonly T[]>;
  /** Reads the items of a batch when its import begins: until then, they may wait as bytes. */
  readonly itemsOf: (batch: readonly T[]) => readonly ImportItem[];
}

interface RunningBatch {
  /** IDs of its connections, of any integration. */
  readonly ids: ReadonlySet<string>;
  readonly result: Promise<ImportResult[]>;
}

export function createItemImports({ imports, environments }: Broker, requireValid: RequireValid): ItemImports {
  async function importItems(caller: Caller, items: readonly ImportItem[]): Promise<ImportResult[]> {
    // The same few environments are named again and again: each is looked up once.
    const known = new Map<string, BatchOutcome<string>>();
    const placed: BatchOutcome<BulkItem>[] = [];
    for (const { connection: item, runHooks, isValid } of items) {
      try {
        if (item === undefined) throw new Fault("invalid_body", "the item is empty");
        if (isValid !== true) requireValid(ConnectionImportSchema, item);
        const { environment: named } = item;
        let found = known.get(named);
        if (found === undefined) {
          found = await outcomeOf(environments.of(caller, named));
          known.set(named, found);
        }
        if (found.fault !== undefined) throw found.fault;
        // The message was read for this import only.
        item.environment = found.value;
        placed.push({ value: { item, runHooks } });
      } catch (error) {
        placed.push({ fault: faultOfStore(error) });
      }
    }
    const good: BulkItem[] = [];
    for (const one of placed) if (one.fault === undefined) good.push(one.value);
    const imported = [...(await imports.importAll(good, caller.keyId))].values();
    return placed.map((one, i) => {
      if (one.fault !== undefined) return refused(items[i]?.connection, one.fault);
      const { value } = imported.next();
      return value === undefined
        ? refused(items[i]?.connection, new Fault("internal", "an item has no result"))
        : resultOf(value);
    });
  }

  /** Imports a batch beside the one before, unless both may have items for one connection: the later one wins. */
  async function importAfter(
    before: RunningBatch | undefined,
    caller: Caller,
    items: readonly ImportItem[],
  ): Promise<ImportResult[]> {
    if (before !== undefined && items.some((item) => before.ids.has(idOf(item)))) await before.result;
    return importItems(caller, items);
  }

  return {
    importItems,
    importStream(caller, { come, itemsOf }) {
      return overlapping(batches(come), (batch, before: RunningBatch | undefined) => {
        const items = itemsOf(batch);
        return { ids: idsOf(items), result: importAfter(before, caller, items) };
      });
    },
  };
}

const idOf = ({ connection }: ImportItem): string => connection?.id ?? "";

/** Items without an ID are for new connections. */
function idsOf(items: readonly ImportItem[]): ReadonlySet<string> {
  const ids = new Set(items.map(idOf));
  ids.delete("");
  return ids;
}

function resultOf(imported: ImportedItem): ImportResult {
  const { ref } = imported;
  if (imported.fault !== undefined) return create(ImportResultSchema, { ref, problem: problemOf(imported.fault) });
  const { created, revision } = imported;
  return { $typeName: "latchkey.v1.ImportResult", ref, created, revision };
}

/** The result of an item that was refused before the import, with the names that the item gives. */
function refused(item: ConnectionImport | undefined, fault: Fault): ImportResult {
  const { environment = "", integration = "", id = "" } = item ?? {};
  const ref = create(ConnectionRefSchema, { environment, integration, id });
  return create(ImportResultSchema, { ref, problem: problemOf(fault) });
}
