import { StaleWrite, type Store } from "../store/contract.ts";
import type { Lease } from "../store/leases.ts";
import { begunAt } from "./audit/logs.ts";
import type { Collections } from "./collections.ts";

/** What is kept of logs, in each environment. */
export interface LogRetention {
  readonly maxAgeMs: number;
  readonly maxCount: number;
}

export interface LogSweep {
  /** Deletes what is too old and what is too many, the oldest first, a small commit at a time. */
  sweep(asked: SweepRequest): Promise<number>;
  /** Somebody else may have deleted some meanwhile: what was counted counts no more. */
  forget(): void;
}

export interface SweepRequest {
  readonly retention: LogRetention;
  readonly nowMs: number;
  /** Who sweeps: two at once would count what the other deletes. */
  readonly lease: Pick<Lease, "fence">;
  /** Aborts between two commits. */
  readonly signal: AbortSignal;
}

interface DeletionCount {
  count: number;
  /** The last one that was counted. */
  upTo: string | undefined;
}

const pageSize = 200;
/** A log is filed under when it began and stored when it ended: until then nothing behind it is counted. */
const settledAfterMs = 120_000;

export function createLogSweep({ store, collections }: { store: Store; collections: Collections }): LogSweep {
  const { logs, environments } = collections;
  const counted = new Map<string, DeletionCount>();

  /** Each environment that has logs, there or deleted, found without a look at the logs between. */
  async function* environmentsWithLogs(): AsyncGenerator<string> {
    let after: string | undefined;
    for (;;) {
      const [found] = await logs.page({ under: [], after, limit: 1 });
      if (found === undefined) return;
      const { environment } = found.value;
      yield environment;
      // Behind everything that begins with this environment: parts are parted by NUL.
      after = `${environment}\x01`;
    }
  }

  /** How many there are; those that were counted before are not read again. */
  async function countOf(environment: string, { nowMs, signal }: SweepRequest): Promise<DeletionCount> {
    const known = counted.get(environment) ?? { count: 0, upTo: undefined };
    counted.set(environment, known);
    while (!signal.aborted) {
      const found = await logs.page({ under: [environment], after: known.upTo, limit: pageSize });
      const settled = found.filter(({ value }) => begunAt(value) < nowMs - settledAfterMs);
      known.count += settled.length;
      known.upTo = settled.at(-1)?.position ?? known.upTo;
      if (settled.length < pageSize) break;
    }
    return known;
  }

  async function sweepOne(environment: string, request: SweepRequest): Promise<number> {
    const { retention, nowMs, lease, signal } = request;
    const home = await environments.get(environment);
    const known = await countOf(environment, request);
    let deleted = 0;
    while (!signal.aborted) {
      const oldest = await logs.page({ under: [environment], limit: pageSize });
      const tooMany = known.count - retention.maxCount;
      const gone = oldest.filter(
        ({ value }, i) => home === undefined || i < tooMany || begunAt(value) < nowMs - retention.maxAgeMs,
      );
      if (gone.length === 0) break;
      const changes = gone.flatMap((before) => logs.change({ before, after: undefined }));
      await store.commit(changes, [lease.fence]);
      known.count -= gone.filter(({ position }) => position <= (known.upTo ?? "")).length;
      deleted += gone.length;
      if (gone.length < oldest.length) break;
    }
    if (known.count === 0) counted.delete(environment);
    return deleted;
  }

  return {
    async sweep(request) {
      let deleted = 0;
      for await (const environment of environmentsWithLogs()) {
        if (request.signal.aborted) break;
        try {
          deleted += await sweepOne(environment, request);
        } catch (error) {
          // Somebody else sweeps now.
          if (!(error instanceof StaleWrite)) throw error;
          counted.clear();
          break;
        }
      }
      return deleted;
    },
    forget: () => counted.clear(),
  };
}
