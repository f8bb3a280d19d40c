import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { type Task, TaskSchema } from "../gen/latchkey/stored/v1/stored_pb.ts";
import { type Change, StaleWrite, type Store } from "./contract.ts";
import { keyOf, partsOf } from "./keys.ts";
import { createLeases, type Lease, LeaseLost } from "./leases.ts";
import { createRecords, type Stored } from "./records.ts";

/**
 * What is to be done later, put down in the same commit as its cause. Tasks of one lane are done in their order and
 * by one at a time: whoever claims the lane has its lease, and whoever has lost that can finish nothing.
 */
export interface Agenda {
  /** For the commit of what causes it. `id` sorts within the lane. */
  add(task: NewTask): readonly Change[];
  /** Those due in a span of time, by when they are due. From the end of the last span on, not from the beginning: what
   * was done before lies there as deletions that would all be waded through. */
  due(span: Span): Promise<readonly Task[]>;
  /** Undefined while somebody else has the lane. */
  claim(lane: string, lengthMs: number): Promise<Claim | undefined>;
}

export interface NewTask {
  readonly lane: string;
  readonly id: string;
  readonly errand: string;
  readonly payload: Uint8Array;
  readonly dueMs: number;
  readonly createdMs: number;
}

export interface Span {
  readonly fromMs: number;
  /** Not with it. */
  readonly toMs: number;
  readonly limit: number;
}

/** A lane, for as long as its lease runs. */
export interface Claim {
  readonly lease: Lease;
  /** The first of the lane, in their order. */
  tasks(limit: number): Promise<readonly Stored<Task>[]>;
  /** It is done; what came of it is part of the same commit. Rejects with `LeaseLost` when it is not ours to finish. */
  finish(task: Stored<Task>, outcome?: readonly Change[]): Promise<void>;
  /** It was tried, and is to be tried again. */
  postpone(task: Stored<Task>, dueMs: number, outcome?: readonly Change[]): Promise<void>;
}

export function createAgenda(store: Store): Agenda {
  const leases = createLeases(store);
  const tasks = createRecords({
    store,
    name: "task",
    schema: TaskSchema,
    key: ({ lane, id }: Task) => [lane, id],
    indexes: { due: (task: Task) => [[sortable(dueOf(task))]] },
  });

  function claimOf(lease: Lease, lane: string): Claim {
    async function commit(changes: readonly Change[]): Promise<void> {
      try {
        await store.commit(changes, [lease.fence]);
      } catch (error) {
        if (error instanceof StaleWrite && "key" in lease.fence && error.key === lease.fence.key) {
          throw new LeaseLost(lease.name, { cause: error });
        }
        throw error;
      }
    }
    return {
      lease,
      tasks: (limit) => tasks.page({ under: [lane], limit }),
      finish: (task, outcome = []) => commit([...tasks.change({ before: task, after: undefined }), ...outcome]),
      postpone(task, dueMs, outcome = []) {
        const after = { ...task.value, dueAt: timestampFromMs(dueMs), attempts: task.value.attempts + 1 };
        return commit([...tasks.change({ before: task, after }), ...outcome]);
      },
    };
  }

  return {
    add({ lane, id, errand, payload, dueMs, createdMs }) {
      const dueAt = timestampFromMs(dueMs);
      const after = create(TaskSchema, { lane, id, errand, payload, dueAt, createdAt: timestampFromMs(createdMs) });
      return tasks.change({ before: undefined, after });
    },
    async due({ fromMs, toMs, limit }) {
      const range = { from: keyOf("task.due", sortable(fromMs)), to: keyOf("task.due", sortable(toMs)), limit };
      const keys = await store.list(range);
      // The space, the time, and the key of the task itself.
      const found = await tasks.getMany(keys.map(({ key }) => partsOf(key).slice(2)));
      return found.flatMap((task) => task?.value ?? []);
    },
    async claim(lane, lengthMs) {
      const lease = await leases.take(`lane/${lane}`, lengthMs);
      return lease === undefined ? undefined : claimOf(lease, lane);
    },
  };
}

const dueOf = ({ dueAt }: Task): number => (dueAt === undefined ? 0 : timestampMs(dueAt));
/** Milliseconds until the year 33658, in as many digits each. */
const sortable = (ms: number): string => String(Math.max(0, Math.floor(ms))).padStart(15, "0");
