import { create } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import type { ImportedItem } from "../../broker/connect/import/imports.ts";
import type { Caller } from "../../broker/setup/caller.ts";
import {
  type ConnectionImport,
  ConnectionImportSchema,
  ConnectionRefSchema,
  type ConnectionService,
  type ImportResult,
  ImportResultSchema,
} from "../../gen/latchkey/v1/connection_pb.ts";
import { eachOf } from "../server/batch.ts";
import { callerOf } from "../server/context.ts";
import { problemOf } from "../server/errors.ts";
import type { RequireValid } from "../server/validate.ts";
import { batches } from "./import-stream.ts";

type ImportMethods = Pick<
  ServiceImpl<typeof ConnectionService>,
  "importConnection" | "batchImportConnections" | "streamImportConnections"
>;

interface Item {
  readonly connection?: ConnectionImport | undefined;
  readonly runHooks: boolean;
}

/** The three ways to import connections: single, batch and stream. */
export const importMethods = (
  { imports, environments, connections }: Broker,
  requireValid: RequireValid,
): ImportMethods => {
  /** Imports items. Invalid items, and those of an environment that the caller may not access, fail individually. */
  async function importItems(caller: Caller, items: readonly Item[]): Promise<ImportResult[]> {
    const placed = await eachOf(items, async ({ connection: item, runHooks }) => {
      if (item === undefined) throw new Fault("invalid_body", "the item is empty");
      requireValid(ConnectionImportSchema, item);
      return { item: { ...item, environment: await environments.of(caller, item.environment) }, runHooks };
    });
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
      let index = 0n;
      for await (const batch of batches(requests)) {
        for (const result of await importItems(caller, batch)) {
          yield { index, result };
          index += 1n;
        }
      }
    },
  };
};

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
