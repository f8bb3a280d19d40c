import type { World } from "../../../base/world.ts";
import type { Store } from "../../../store/contract.ts";
import { follow } from "../../../store/follow.ts";
import { createLeases, type Lease, LeaseLost } from "../../../store/leases.ts";
import type { ConnectionCollections } from "../connection-collections.ts";
import type { LookupFields } from "./lookup-fields.ts";
import { createReindexPlan, type ReindexWork } from "./reindex-plan.ts";
import { runReindex } from "./reindex-run.ts";

/**
 * Writes the lookup keys of a provider's connections again when the fields that notifications find them by have
 * changed. Works in the background, one commit for each page, so an unchanged field finds its connections throughout.
 */
export interface Reindex {
  /** Looks at all providers in use now: some may have changed. */
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
const leaseMs = 30_000;

export async function openReindex(options: ReindexOptions): Promise<Reindex> {
  const { store, collections, fields, world } = options;
  const { lookupFilings } = collections;
  const leases = createLeases(store);
  const plan = createReindexPlan({ store, collections, fields, world });
  const ended = new AbortController();
  let isBegun = false;
  /** Providers or integrations have changed. */
  let isDue = false;
  /** `look` was called while a round may be about to end. */
  let isRepeated = false;
  let round: Promise<void> | undefined;
  const timer = setInterval(() => void run(), everyMs);
  timer.unref();

  const watch = await follow({
    store,
    world,
    spaces: [lookupFilings.name, "integration", "provider"],
    async read() {
      const filings = await lookupFilings.page({ under: [], limit: Number.MAX_SAFE_INTEGER });
      return () => {
        for (const { value } of filings) fields.remember(value.provider, value.fields);
        look();
      };
    },
    onCommit({ changes, revision }) {
      for (const change of changes) {
        const filing = lookupFilings.read(change, revision)?.value;
        if (filing !== undefined) fields.remember(filing.provider, filing.fields);
        // A new integration has no connections yet: the next round is soon enough.
        if (change.key.startsWith("integration\0")) isDue = true;
        if (change.key.startsWith("provider\0")) look();
      }
    },
  });

  function look(): void {
    isDue = true;
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
        await fileAll();
      } while (isRepeated && !ended.signal.aborted);
    } catch (err) {
      isDue = true;
      if (!ended.signal.aborted) {
        world.log.warn("lookup keys of connections were not written; they are within a minute", { err });
      }
    } finally {
      round = undefined;
    }
  }

  async function fileAll(): Promise<void> {
    let lease: Lease | undefined;
    try {
      for (;;) {
        const wasDue = isDue;
        isDue = false;
        const { work, isLeft } = await plan.next(wasDue);
        if (work.length === 0 && !isDue) {
          isDue = isLeft;
          return;
        }
        if (lease === undefined) {
          isDue = true;
          lease = await leases.take("lookup-filing", leaseMs);
          if (lease === undefined) return;
          // The last holder of the lease may have done some of the work.
          continue;
        }
        for (const one of work) await file(one, lease);
        if (ended.signal.aborted) return;
      }
    } catch (error) {
      // Another replica has the lease and continues.
      if (!(error instanceof LeaseLost)) throw error;
      isDue = true;
    } finally {
      await lease?.release().catch((err: unknown) => world.log.debug("a lease was not released", { err }));
    }
  }

  async function file(work: ReindexWork, lease: Lease): Promise<void> {
    const isOver = () => ended.signal.aborted || fields.known(work.provider) !== work.wanted;
    const isDone = await runReindex({ store, collections, lease, leaseMs, work, isOver, world });
    if (!isDone) isDue = true;
    plan.agree(work.provider, work.wanted);
  }

  return {
    look() {
      isBegun = true;
      look();
    },
    run,
    async close() {
      clearInterval(timer);
      ended.abort();
      watch.close();
      await round;
    },
  };
}
