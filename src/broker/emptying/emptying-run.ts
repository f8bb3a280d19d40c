import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../base/world.ts";
import { Emptying_State } from "../../gen/latchkey/v1/environment_pb.ts";
import { type Backend, type Change, type Entry, StaleWrite, type Store } from "../../store/contract.ts";
import { keyOf, under } from "../../store/keys.ts";
import type { Audit } from "../audit/audit.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import {
  type CompanionCollections,
  companionsIn,
  createCompanions,
  unwatchedSpaces,
  watchedIndexes,
} from "./companions.ts";
import { eachPage, entryPages, keyPages, type SpaceRange } from "./each-page.ts";
import { deletionOf, type EmptiedPage, type EmptyPage, type PageContext, type StoredKey } from "./emptied-page.ts";
import type { EndWays } from "./ended-ways.ts";
import type { SayGoodbye } from "./goodbye.ts";
import { type EmptyingReport, isReportLost, openReport } from "./report.ts";

/** Empties an environment in passes until nothing is left, or until it is stopped. */
export type RunEmptying = (environment: string, options: { readonly signal: AbortSignal }) => Promise<void>;

interface EmptyingRunOptions {
  readonly store: Store;
  /** Keys alone: to open a value takes longer than to delete it. */
  readonly keys: Backend["keys"];
  readonly discard: Backend["discard"];
  readonly collections: SetupCollections & CompanionCollections;
  readonly emptyPage: EmptyPage;
  readonly endWays: EndWays;
  readonly sayGoodbye: SayGoodbye;
  readonly audit: Audit;
  readonly world: World;
}

/** Keys that are removed at once without a commit. */
const discardedAtOnce = 5_000;

export function createEmptyingRun(options: EmptyingRunOptions): RunEmptying {
  const { store, keys, discard, collections, emptyPage, endWays, sayGoodbye, audit, world } = options;
  const { connections } = collections;
  const companions = createCompanions(collections);
  const [listKeys, listEntries] = [keyPages(keys), entryPages(store)];

  async function preparePage(page: readonly StoredKey[], context: PageContext): Promise<DeletionPage> {
    await sayGoodbye(page);
    return { page, context, emptied: await emptyPage(page, context) };
  }

  async function deletePage({ page, context, emptied: first }: DeletionPage, report: EmptyingReport): Promise<void> {
    let [found, { changes, revocations }] = [page, first];
    while (found.length > 0) {
      try {
        await report.commit(changes, { deleted: { connections: found.length, revocations } });
        return;
      } catch (error) {
        if (!(error instanceof StaleWrite) || isReportLost(error)) throw error;
        // Something changed one of them: read those that are left, and decide again.
        const again = await store.getMany(found.map(({ key }) => key));
        found = again.flatMap((one) => (one === undefined ? [] : [one]));
        ({ changes, revocations } = await emptyPage(found, context));
      }
    }
  }

  async function deleteConnections(environment: string, { report, signal }: Pass): Promise<void> {
    const context: PageContext = {
      asked: report.asked,
      companions: await companionsIn(store, { companions: companions.filter(isBeside), environment }),
      hasRecords: (await store.list({ ...under("record-model"), limit: 1 })).length > 0,
    };
    await eachPage(under(connections.name, environment), {
      signal,
      list: listKeys,
      prepare: (page) => preparePage(page, context),
      work: (prepared) => deletePage(prepared, report),
    });
  }

  /** Deletes the secondary keys that are left, and what was written for connections that were gone. */
  async function deleteLeftovers(environment: string, { report, signal }: Pass): Promise<void> {
    const work = async (changes: readonly Change[]) => void (await store.commit(changes));
    const deleteKeys = (range: SpaceRange) =>
      eachPage(range, { signal, list: listKeys, prepare: async (page) => page.map(deletionOf), work });
    for (const space of unwatchedSpaces) {
      const range = { ...under(...space, environment), limit: discardedAtOnce };
      while (!signal.aborted && (await discard(range, report.unchanged)));
    }
    for (const { space, deletion, readsValue } of [...watchedIndexes, ...companions]) {
      const range = under(...space, environment);
      if (!readsValue) await deleteKeys(range);
      else {
        const prepare = async (page: readonly Entry[]) => (await Promise.all(page.map(deletion))).flat();
        await eachPage(range, { signal, list: listEntries, prepare, work });
      }
    }
    for (const range of refreshLeases(environment)) await deleteKeys(range);
  }

  /** Ends the emptying if no connection is left at this moment. */
  async function end(environment: string, report: EmptyingReport): Promise<boolean> {
    const { actor } = report.asked;
    const line = { actor, action: "environment.emptied", environment, targets: [environment] };
    try {
      await report.commit(audit.changes(line), {
        fields: { state: Emptying_State.DONE, endedAt: timestampFromMs(world.now()) },
        conditions: [connections.none([environment])],
      });
      return true;
    } catch (error) {
      if (error instanceof StaleWrite && !isReportLost(error)) return false;
      throw error;
    }
  }

  return async (environment, { signal }) => {
    while (!signal.aborted) {
      const report = await openReport({ store, collections }, environment);
      if (report?.asked.emptying?.state !== Emptying_State.RUNNING) return;
      // The ways to a new connection end first.
      await endWays(report);
      await deleteConnections(environment, { report, signal });
      await deleteLeftovers(environment, { report, signal });
      if (!signal.aborted && (await end(environment, report))) return;
    }
  };
}

interface DeletionPage {
  readonly page: readonly StoredKey[];
  readonly context: PageContext;
  readonly emptied: EmptiedPage;
}

interface Pass {
  readonly report: EmptyingReport;
  readonly signal: AbortSignal;
}

/** Credentials are deleted by the keys of their connections, or read to revoke a grant. */
const isBeside = ({ space }: { readonly space: readonly string[] }): boolean => space[0] !== "credentials";

/** Leases of refreshes, by name: `refresh/environment/integration/id`. */
const refreshLeases = (environment: string): readonly SpaceRange[] =>
  ["lease", "lease-term"].map((space) => ({
    from: keyOf(space, `refresh/${environment}/`),
    // The character after the slash.
    to: keyOf(space, `refresh/${environment}0`),
  }));
