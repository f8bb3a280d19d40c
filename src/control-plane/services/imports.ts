import { create } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import type { BulkItem, ImportedItem } from "../../broker/connect/import/imports.ts";
import type { Caller } from "../../broker/setup/caller.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";
import {
  type ConnectionImport,
  ConnectionImportSchema,
  ConnectionRefSchema,
  type ConnectionService,
  type ImportResult,
  ImportResultSchema,
} from "../../gen/latchkey/v1/connection_pb.ts";
import { type BatchOutcome, outcomeOf } from "../server/batch.ts";
import { callerOf } from "../server/context.ts";
import { problemOf } from "../server/errors.ts";
import type { RequireValid } from "../server/validate.ts";
import { batches, type EarlierBatch, overlapping } from "./import-stream.ts";

type ImportMethods = Pick<
  ServiceImpl<typeof ConnectionService>,
  "importConnection" | "batchImportConnections" | "streamImportConnections"
>;

interface Item {
  readonly connection?: ConnectionImport | undefined;
  readonly runHooks: boolean;
}

type RunningBatch = EarlierBatch<readonly Item[], ImportResult[]>;

/** The three ways to import connections: single, batch and stream. */
export const importMethods = (
  { imports, environments, connections }: Broker,
  requireValid: RequireValid,
): ImportMethods => {
  /** Imports items. Invalid items, and those of an environment that the caller may not access, fail individually. */
  async function importItems(caller: Caller, items: readonly Item[]): Promise<ImportResult[]> {
    // The same few environments are named again and again: each is looked up once.
    const known = new Map<string, BatchOutcome<string>>();
    const placed: BatchOutcome<BulkItem>[] = [];
    for (const { connection: item, runHooks } of items) {
      try {
        if (item === undefined) throw new Fault("invalid_body", "the item is empty");
        requireValid(ConnectionImportSchema, item);
        const { environment: named } = item;
        const found = known.get(named) ?? (await outcomeOf(environments.of(caller, named)));
        known.set(named, found);
        if (found.fault !== undefined) throw found.fault;
        placed.push({ value: { item: { ...item, environment: found.value }, runHooks } });
      } catch (error) {
        placed.push({ fault: faultOfStore(error) });
      }
    }
    const good = placed.flatMap((one) => (one.fault === undefined ? [one.value] : []));
    const imported = [...(await imports.importAll(good, caller.keyId))].values();
    return placed.map((one, i) => {
      if (one.fault !== undefined) return refused(items[i]?.connection, one.fault);
      const { value } = imported.next();
      return value === undefined
        ? refused(items[i]?.connection, new Fault("internal", "an item has no result"))
        : resultOf(value);
    });
  }

  /** Imports a batch beside the one before, unless both have items for one connection: the later one wins. */
  async function imported(caller: Caller, batch: readonly Item[], before: RunningBatch | undefined) {
    if (before !== undefined && haveCommon(before.batch, batch)) await before.result;
    return importItems(caller, batch);
  }

  return {
    async importConnection({ connection: item }, context) {
      if (item === undefined) throw new Error("a validated request holds its connection");
      const caller = callerOf(context);
      const environment = await environments.of(caller, item.environment);
      const { connection, created } = await imports.importOne({ ...item, environment }, caller.keyId);
      const [shown = connection] = await connections.withLastUse([connection]);
      return { connection: shown, created };
    },
    async batchImportConnections({ connections: items, runHooks }, context) {
      const requested = items.map((connection) => ({ connection, runHooks }));
      return { results: await importItems(callerOf(context), requested) };
    },
    async *streamImportConnections(requests, context) {
      const caller = callerOf(context);
      const start = (batch: readonly Item[], before: RunningBatch | undefined) => imported(caller, batch, before);
      let index = 0n;
      for await (const results of overlapping(batches<Item>(requests), start)) {
        for (const result of results) {
          yield { $typeName: "latchkey.v1.StreamImportConnectionsResponse" as const, index, result };
          index += 1n;
        }
      }
    },
  };
};

/** Whether items of both may be for one connection. Items without an ID are for new ones. */
function haveCommon(some: readonly Item[], others: readonly Item[]): boolean {
  const names = new Set(some.map(nameOf));
  return others.some((item) => item.connection?.id !== "" && names.has(nameOf(item)));
}

const nameOf = ({ connection }: Item): string => `${connection?.integration}\0${connection?.id}`;

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
