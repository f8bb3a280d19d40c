import type { World } from "../../base/world.ts";
import { currentState } from "../../core/approvals/approval-state.ts";
import { ApprovalState } from "../../gen/latchkey/v1/approval_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import { partsOf } from "../../store/keys.ts";
import type { Audit } from "../audit/audit.ts";
import { keysUntil } from "../stored/sortable-time.ts";
import { closing } from "./approval-changes.ts";
import type { ApprovalCollections } from "./approval-collections.ts";
import { freedSlot } from "./approval-slots.ts";

interface ApprovalSweepOptions {
  readonly store: Store;
  readonly collections: ApprovalCollections;
  readonly audit: Audit;
  readonly world: World;
}

/** Approvals and the content of their requests are kept for so long; none waits or can be used longer. */
const keptMs = 14 * 86_400_000;
const perCommit = 200;
const commitsPerSweep = 50;

/** Stores that approvals have expired, and deletes old ones. */
export function createApprovalSweep({ store, collections, audit, world }: ApprovalSweepOptions) {
  const { approvals, approvalContents, rememberedApprovals } = collections;

  async function until(space: string, ms: number): Promise<string[][]> {
    const keys = await store.list({ ...keysUntil(space, ms), limit: perCommit });
    return keys.map(({ key }) => partsOf(key).slice(2));
  }

  async function expired(): Promise<Change[]> {
    const nowMs = world.now();
    const found = await approvals.getMany(await until(`${approvals.name}.due`, nowMs));
    const changes: Change[] = [];
    for (const before of found) {
      if (before === undefined || currentState(before.value, nowMs) !== ApprovalState.EXPIRED) continue;
      const { environment, id } = before.value;
      changes.push(
        ...approvals.change({ before, after: { ...before.value, state: ApprovalState.EXPIRED } }),
        ...(await closing(collections, before.value)),
        ...(await freedSlot(collections, before.value)),
        ...audit.changes({ actor: "latchkey", action: "approval.expire", environment, targets: [id] }),
      );
      world.metrics.approvals.inc({ result: "expired" });
    }
    return changes;
  }

  async function old(): Promise<Change[]> {
    const ids = await until(`${approvals.name}.age`, world.now() - keptMs);
    const [found, contents] = await Promise.all([approvals.getMany(ids), approvalContents.getMany(ids)]);
    const closed = await Promise.all(
      found.map((before) => (before === undefined ? [] : closing(collections, before.value))),
    );
    return [
      ...found.flatMap((before) => (before === undefined ? [] : approvals.change({ before, after: undefined }))),
      ...contents.flatMap((before) =>
        before === undefined ? [] : approvalContents.change({ before, after: undefined }),
      ),
      ...closed.flat(),
    ];
  }

  async function forgotten(): Promise<Change[]> {
    const found = await rememberedApprovals.getMany(await until(`${rememberedApprovals.name}.expiry`, world.now()));
    return found.flatMap((before) =>
      before === undefined ? [] : rememberedApprovals.change({ before, after: undefined }),
    );
  }

  return async (signal: AbortSignal): Promise<void> => {
    for (let i = 0; i < commitsPerSweep && !signal.aborted; i += 1) {
      const changes = [...(await expired()), ...(await old()), ...(await forgotten())];
      if (changes.length === 0) return;
      await store.commit(changes);
    }
  };
}
