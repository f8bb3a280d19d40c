import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../base/world.ts";
import { Emptying_State } from "../../gen/latchkey/v1/environment_pb.ts";
import { type Change, type Entry, StaleWrite, type Store } from "../../store/contract.ts";
import { after, keyOf, under } from "../../store/keys.ts";
import type { Audit } from "../audit/audit.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { type CompanionCollections, companionsIn, connectionIndexes, createCompanions } from "./companions.ts";
import type { EmptyPage, PageContext, StoredKey } from "./emptied-page.ts";
import type { EndWays } from "./ended-ways.ts";
import type { SayGoodbye } from "./goodbye.ts";
import { type EmptyingReport, isReportLost, openReport } from "./report.ts";

/** Empties an environment in passes until nothing is left, or until it is stopped. */
export type RunEmptying = (environment: string, options: { readonly signal: AbortSignal }) => Promise<void>;

interface EmptyingRunOptions {
  readonly store: Store;
  /** Lists without opening the values: to authenticate one takes as long as to delete it. */
  readonly listClosed: Store["list"];
  readonly collections: SetupCollections & CompanionCollections;
  readonly emptyPage: EmptyPage;
  readonly endWays: EndWays;
  readonly sayGoodbye: SayGoodbye;
  readonly audit: Audit;
  readonly world: World;
}

/** Entries of a commit: proxied requests wait for as long as one takes to compose and tell. */
const pageSize = 400;

interface SpaceRange {
  readonly from: string;
  readonly to: string;
}

interface PageWork {
  readonly signal: AbortSignal;
  /** Reads the pages. */
  readonly list: Store["list"];
  readonly work: (page: readonly Entry[]) => Promise<void>;
}

export function createEmptyingRun(options: EmptyingRunOptions): RunEmptying {
  const { store, listClosed, collections, emptyPage, endWays, sayGoodbye, audit, world } = options;
  const { connections } = collections;
  const companions = createCompanions(collections);

  /** Deals with all entries of a range, a page after another. The store reads the next page in the meantime. */
  async function eachPage({ from, to }: SpaceRange, { signal, list, work }: PageWork): Promise<void> {
    let next = list({ from, to, limit: pageSize });
    while (!signal.aborted) {
      const page = await next;
      const last = page.at(-1);
      if (last === undefined) return;
      const isLast = page.length < pageSize;
      if (!isLast) {
        next = list({ from: after(last.key), to, limit: pageSize });
        // A failure is met when the page is needed, unless the work fails first.
        next.catch(() => {});
      }
      await work(page);
      if (isLast) return;
    }
  }

  async function deletePage(
    page: readonly StoredKey[],
    { report, context }: { readonly report: EmptyingReport; readonly context: PageContext },
  ): Promise<void> {
    await sayGoodbye(page);
    for (let found = page; found.length > 0; ) {
      const { changes, revocations } = await emptyPage(found, context);
      try {
        await report.commit(changes, { deleted: { connections: found.length, revocations } });
        return;
      } catch (error) {
        if (!(error instanceof StaleWrite) || isReportLost(error)) throw error;
        // Something changed one of them: read those that are left, and decide again.
        const again = await store.getMany(found.map(({ key }) => key));
        found = again.flatMap((one) => (one === undefined ? [] : [one]));
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
      list: listClosed,
      work: (page) => deletePage(page, { report, context }),
    });
  }

  /** Deletes the secondary keys that are left, and what was written for connections that were gone. */
  async function deleteLeftovers(environment: string, signal: AbortSignal): Promise<void> {
    for (const { space, deletion, readsValue } of [...connectionIndexes, ...companions]) {
      await eachPage(under(...space, environment), {
        signal,
        list: readsValue ? (range) => store.list(range) : listClosed,
        work: async (page) => void (await store.commit((await Promise.all(page.map(deletion))).flat())),
      });
    }
    for (const range of refreshLeases(environment)) {
      const work = async (page: readonly Entry[]) => void (await store.commit(page.map(deletionOf)));
      await eachPage(range, { signal, list: listClosed, work });
    }
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
      await deleteLeftovers(environment, signal);
      if (!signal.aborted && (await end(environment, report))) return;
    }
  };
}

interface Pass {
  readonly report: EmptyingReport;
  readonly signal: AbortSignal;
}

/** Credentials are deleted by the keys of their connections, or read to revoke a grant. */
const isBeside = ({ space }: { readonly space: readonly string[] }): boolean => space[0] !== "credentials";

const deletionOf = ({ key }: Entry): Change => ({ key, value: undefined });

/** Leases of refreshes, by name: `refresh/environment/integration/id`. */
const refreshLeases = (environment: string): readonly SpaceRange[] =>
  ["lease", "lease-term"].map((space) => ({
    from: keyOf(space, `refresh/${environment}/`),
    // The character after the slash.
    to: keyOf(space, `refresh/${environment}0`),
  }));
