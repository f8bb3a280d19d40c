import { randomUUID } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { Fault } from "../../../base/fault.ts";
import {
  type Connection,
  type ConnectionImport,
  type ConnectionRef,
  ConnectionRefSchema,
} from "../../../gen/latchkey/v1/connection_pb.ts";
import { StaleWrite } from "../../../store/contract.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import type { ConnectionCollections } from "../../connections/connection-collections.ts";
import type { ConnectionHealth } from "../../connections/health/health.ts";
import type { Numbers } from "../../connections/numbers.ts";
import type { Integrations } from "../../setup/integrations.ts";
import type { Providers } from "../../setup/providers.ts";
import type { SetupCollections } from "../../setup/setup-collections.ts";
import { requireRevision } from "../../stored/conflict.ts";
import type { AuthorizedImport } from "./authorized-import.ts";
import { createCommitImports, type ImportCommitOptions, type ImportOrigin } from "./import-commit.ts";
import { createImportDescriptions } from "./import-descriptions.ts";
import { createMergeImport, type PendingImport } from "./import-merge.ts";
import { faultOfImport } from "./import-rules.ts";
import { createReadImportState, type ImportState } from "./import-state.ts";

/** The result of one item. */
export type ImportedItem =
  | {
      readonly ref: ConnectionRef;
      /** Without its revision. */
      readonly connection: Connection;
      readonly revision: bigint;
      readonly created: boolean;
      readonly fault?: undefined;
    }
  | { readonly ref: ConnectionRef; readonly fault: Fault };

/** An item of a bulk import. */
export interface BulkItem {
  readonly item: ConnectionImport;
  /** Runs the same hooks as for a single import. */
  readonly runHooks: boolean;
}

export interface StoredImport {
  readonly connection: Connection;
  readonly created: boolean;
}

export interface Imports {
  /**
   * Imports each item independently: an invalid item does not affect the others. All valid items are one commit, so the
   * call is as fast as the disk. If two items have the same reference, the later one wins.
   */
  importAll(items: readonly BulkItem[], actor: string): Promise<readonly ImportedItem[]>;
  /** Imports one item; throws its error. */
  importOne(item: ConnectionImport, actor: string): Promise<StoredImport>;
  /** Stores a connection that its end user authorized: like an import, in one commit with all consequences. */
  authorizeOne(authorized: AuthorizedImport, actor: string): Promise<StoredImport>;
}

interface ImportsOptions extends ImportCommitOptions {
  readonly collections: SetupCollections & ConnectionCollections;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly numbers: Numbers;
  readonly health: ConnectionHealth;
}

export function createImports(options: ImportsOptions): Imports {
  const { collections, integrations, providers, numbers, health, world } = options;
  const importDescriptions = createImportDescriptions({ collections, world });
  const readState = createReadImportState({ collections, integrations, providers, importDescriptions });
  const merge = createMergeImport({ numbers, health, importDescriptions, world });
  const commit = createCommitImports(options);

  /** Validates and merges each item; later items of one connection build on earlier ones. */
  async function prepare(items: readonly NamedItem[], state: ImportState, authorized: AuthorizedImport | undefined) {
    const batch = new Map<string, PendingImport>();
    const outcomes: (PendingImport | Fault)[] = [];
    for (let i = 0; i < items.length; i += 1) {
      const one = items[i];
      if (one === undefined) continue;
      const { ref, runHooks, item: given } = one;
      const target = state.targetOf(ref);
      if (target instanceof Fault) {
        outcomes.push(target);
        continue;
      }
      const at = `${ref.environment}\0${ref.integration}\0${ref.id}`;
      const earlier = batch.get(at);
      const before = state.connections[i];
      const base = earlier?.after ?? before?.value;
      if (authorized?.isAgain === true && base === undefined) throw connectionGone(ref);
      // A link for a new connection must not replace one that exists by now.
      if (authorized?.isAgain === false && base !== undefined) throw connectionThere(ref);
      const item = authorized === undefined ? given : withGrant(given, base, authorized);
      const fault = faultOfImport(item, { ...target, base }) ?? conflictOf(item, before);
      if (fault !== undefined) {
        outcomes.push(fault);
        continue;
      }
      const merged = merge({
        item,
        ref,
        target,
        before,
        base,
        authorized,
        runHooks: runHooks || earlier?.runHooks === true,
        record: state.refreshRecords[i],
        description: state.descriptions[i],
      });
      // A promise for each of thousands of items would cost more than its merge.
      const pending = merged instanceof Promise ? await merged : merged;
      batch.set(at, pending);
      outcomes.push(pending);
    }
    return { batch: [...batch.values()], outcomes };
  }

  async function importAll(items: readonly BulkItem[], origin: ImportOrigin): Promise<readonly ImportedItem[]> {
    const named = items.map(nameItem);
    const refs = named.map(({ ref }) => ref);
    for (;;) {
      const { batch, outcomes } = await prepare(named, await readState(refs), origin.authorized);
      try {
        const revision = BigInt(await commit(batch, origin));
        return outcomes.map((outcome, i): ImportedItem => {
          const ref = refs[i] ?? create(ConnectionRefSchema);
          if (outcome instanceof Fault) return { ref, fault: outcome };
          return { ref, created: outcome.created, connection: outcome.after, revision };
        });
      } catch (error) {
        // Another write changed one of the connections in the meantime: read and decide again.
        if (!(error instanceof StaleWrite)) throw error;
      }
    }
  }

  async function importCounted(items: readonly BulkItem[], actor: string): Promise<readonly ImportedItem[]> {
    const results = await importAll(items, { actor });
    for (const one of results) {
      const result = one.fault !== undefined ? "refused" : one.created ? "created" : "overridden";
      world.metrics.imports.inc({ result });
    }
    return results;
  }

  return {
    importAll: importCounted,
    importOne: async (item, actor) => onlyResult(await importCounted([{ item, runHooks: true }], actor)),
    authorizeOne: async (authorized, actor) =>
      onlyResult(await importAll([{ item: authorized.item, runHooks: true }], { actor, authorized })),
  };
}

interface NamedItem extends BulkItem {
  readonly ref: ConnectionRef;
}

/** Gives an item without an ID a random one. */
function nameItem({ item: given, runHooks }: BulkItem): NamedItem {
  const item = given.id === "" ? { ...given, id: randomUUID() } : given;
  const { environment, integration, id } = item;
  return { item, runHooks, ref: { $typeName: "latchkey.v1.ConnectionRef", environment, integration, id } };
}

function onlyResult([result]: readonly ImportedItem[]): StoredImport {
  if (result === undefined) throw new Error("one item has one result");
  if (result.fault !== undefined) throw result.fault;
  const { connection, revision, created } = result;
  return { connection: { ...connection, revision }, created };
}

const connectionGone = ({ id }: ConnectionRef) =>
  new Fault("unknown_connection", `the connection "${id}" was deleted before it could be authorized again`);

const connectionThere = ({ id }: ConnectionRef) =>
  new Fault("already_exists", `the connection "${id}" exists by now; ask for a link to connect it again`);

/** Merges the authorization's values into the existing connection: only named values change. */
function withGrant(
  item: ConnectionImport,
  base: Connection | undefined,
  { metadata, connectionConfig }: AuthorizedImport,
): ConnectionImport {
  return {
    ...item,
    ...(Object.keys(metadata).length === 0 ? {} : { metadata: { ...base?.metadata, ...metadata } }),
    connectionConfig: { ...base?.connectionConfig, ...connectionConfig },
  };
}

function conflictOf(
  { expectedRevision }: ConnectionImport,
  before: StoredRecordOf<Connection> | undefined,
): Fault | undefined {
  try {
    requireRevision(before, expectedRevision);
    return undefined;
  } catch (error) {
    return Fault.from(error);
  }
}
