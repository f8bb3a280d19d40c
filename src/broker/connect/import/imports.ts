import { randomUUID } from "node:crypto";
import { Fault } from "../../../base/fault.ts";
import type { Connection, ConnectionImport, ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import { StaleWrite } from "../../../store/contract.ts";
import type { ConnectionCollections } from "../../connections/connection-collections.ts";
import type { ConnectionHealth } from "../../connections/health/health.ts";
import type { Numbers } from "../../connections/numbers.ts";
import type { Integrations } from "../../setup/integrations.ts";
import type { Providers } from "../../setup/providers.ts";
import type { SetupCollections } from "../../setup/setup-collections.ts";
import type { AuthorizedImport } from "./authorized-import.ts";
import { createCommitImports, type ImportCommitOptions, type ImportOrigin } from "./import-commit.ts";
import { createImportDescriptions } from "./import-descriptions.ts";
import { createMergeImport, type PendingImport } from "./import-merge.ts";
import { type BulkItem, createPrepareImports, type NamedItem } from "./import-preparation.ts";
import { createReadImportState } from "./import-state.ts";

/** The result of one item. */
export type ImportedItem =
  | {
      readonly ref: ConnectionRef;
      readonly revision: bigint;
      readonly created: boolean;
      readonly fault?: undefined;
    }
  | { readonly ref: ConnectionRef; readonly fault: Fault };

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
  const prepare = createPrepareImports(createMergeImport({ numbers, health, importDescriptions, world }));
  const commit = createCommitImports(options);

  /** Prepares a batch and begins its commit. Keeps only what `kept` returns of each connection during the commit. */
  async function begin<K>(items: readonly NamedItem[], { origin, kept }: Importing<K>): Promise<BegunImport<K>> {
    const state = await readState(items.map(({ ref }) => ref));
    const { batch, outcomes } = await prepare(items, state, origin.authorized);
    return {
      outcomes: outcomes.map((outcome) => (outcome instanceof Fault ? outcome : kept(outcome))),
      revision: commit(batch, origin),
    };
  }

  async function importEach<K>(items: readonly BulkItem[], importing: Importing<K>): Promise<readonly FiledItem<K>[]> {
    const named = items.map(nameItem);
    for (;;) {
      const begun = await begin(named, importing);
      try {
        const revision = BigInt(await begun.revision);
        return named.map(({ ref }, i): FiledItem<K> => {
          const outcome = begun.outcomes[i];
          if (outcome === undefined) throw new Error("an item has no outcome");
          return outcome instanceof Fault ? { ref, fault: outcome } : { ref, kept: outcome, revision };
        });
      } catch (error) {
        // Another write changed one of the connections in the meantime: read and decide again.
        if (!(error instanceof StaleWrite)) throw error;
      }
    }
  }

  function count(items: readonly FiledItem<{ readonly created: boolean }>[]): void {
    const counts = { refused: 0, created: 0, overridden: 0 };
    for (const one of items) {
      counts[one.fault !== undefined ? "refused" : one.kept.created ? "created" : "overridden"] += 1;
    }
    for (const [result, found] of Object.entries(counts)) if (found > 0) world.metrics.imports.inc({ result }, found);
  }

  async function importOne(item: ConnectionImport, origin: ImportOrigin) {
    return importEach([{ item, runHooks: true }], {
      origin,
      kept: ({ after: connection, created }) => ({ connection, created }),
    });
  }

  return {
    async importAll(items, actor) {
      const filed = await importEach(items, { origin: { actor }, kept: ({ created }) => ({ created }) });
      count(filed);
      return filed.map(
        (one): ImportedItem =>
          one.fault !== undefined
            ? { ref: one.ref, fault: one.fault }
            : { ref: one.ref, created: one.kept.created, revision: one.revision },
      );
    },
    async importOne(item, actor) {
      const filed = await importOne(item, { actor });
      count(filed);
      return onlyResult(filed);
    },
    authorizeOne: async (authorized, actor) => onlyResult(await importOne(authorized.item, { actor, authorized })),
  };
}

interface Importing<K> {
  readonly origin: ImportOrigin;
  readonly kept: (imported: PendingImport) => K;
}

interface BegunImport<K> {
  readonly outcomes: readonly (K | Fault)[];
  readonly revision: Promise<number>;
}

/** The result of one item, with what was kept of its connection. */
type FiledItem<K> =
  | { readonly ref: ConnectionRef; readonly kept: K; readonly revision: bigint; readonly fault?: undefined }
  | { readonly ref: ConnectionRef; readonly fault: Fault };

/** Gives an item without an ID a random one. */
function nameItem({ item: given, runHooks }: BulkItem): NamedItem {
  const item = given.id === "" ? { ...given, id: randomUUID() } : given;
  const { environment, integration, id } = item;
  return { item, runHooks, ref: { $typeName: "latchkey.v1.ConnectionRef", environment, integration, id } };
}

function onlyResult([result]: readonly FiledItem<StoredImport>[]): StoredImport {
  if (result === undefined) throw new Error("one item has one result");
  if (result.fault !== undefined) throw result.fault;
  const { revision, kept } = result;
  const { connection, created } = kept;
  return { connection: { ...connection, revision }, created };
}
