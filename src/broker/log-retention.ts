import type { Log } from "../gen/latchkey/v1/log_pb.ts";
import { StaleWrite, type Store } from "../store/contract.ts";
import type { Lease } from "../store/leases.ts";
import type { PositionedRecord } from "../store/records.ts";
import { begunAt } from "./audit/log-filter.ts";
import type { Collections } from "./collections.ts";

/** Limits of the logs of each environment. */
export interface LogRetention {
  readonly maxAgeMs: number;
  readonly maxCount: number;
}

export interface LogSweep {
  /** Deletes logs that are too old or too many, oldest first, in small commits. */
  sweep(request: SweepRequest): Promise<number>;
  /** Discards the counts: another replica may have deleted logs in the meantime. */
  forget(): void;
}

export interface SweepRequest {
  readonly retention: LogRetention;
  readonly nowMs: number;
  /** The lease of the sweeping replica. Two sweeps at once would count what the other one deletes. */
  readonly lease: Pick<Lease, "fence">;
  /** Stops the sweep between two commits. */
  readonly signal: AbortSignal;
}

interface DeletionCount {
  count: number;
  /** Position of the last counted log. */
  upTo: string | undefined;
}

const pageSize = 200;
/** A log is keyed by its start but stored at its end. Until this age, later logs are not counted. */
const settledAfterMs = 120_000;

export function createLogSweep({ store, collections }: { store: Store; collections: Collections }): LogSweep {
  const { logs, environments } = collections;
  const counted = new Map<string, DeletionCount>();

  /** Yields each environment that has logs, also deleted ones, without reading the logs in between. */
  async function* environmentsWithLogs(): AsyncGenerator<string> {
    let after: string | undefined;
    for (;;) {
      const [found] = await logs.page({ under: [], after, limit: 1 });
      if (found === undefined) return;
      const { environment } = found.value;
      yield environment;
      // Skips all keys of this environment: NUL separates key parts, so `\x01` sorts after them.
      after = `${environment}\x01`;
    }
  }

  /** Counts the logs of an environment; logs counted before are not read again. */
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
    const isGone = ({ value }: PositionedRecord<Log>, place: number) =>
      home === undefined || place < known.count - retention.maxCount || begunAt(value) < nowMs - retention.maxAgeMs;
    // In most rounds nothing is to be deleted: the first log tells, unless the clock was ahead when it began.
    const [first] = await logs.page({ under: [environment], limit: 1 });
    let isMore = first !== undefined && (isGone(first, 0) || begunAt(first.value) > nowMs);
    let deleted = 0;
    while (isMore && !signal.aborted) {
      const oldest = await logs.page({ under: [environment], limit: pageSize });
      const gone = oldest.filter(isGone);
      if (gone.length === 0) break;
      const changes = gone.flatMap((before) => logs.change({ before, after: undefined }));
      await store.commit(changes, [lease.fence]);
      known.count -= gone.filter(({ position }) => position <= (known.upTo ?? "")).length;
      deleted += gone.length;
      isMore = gone.length === oldest.length;
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
          // Another replica is sweeping now.
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
