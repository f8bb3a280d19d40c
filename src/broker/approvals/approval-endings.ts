import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../base/world.ts";
import { type Approval, ApprovalState } from "../../gen/latchkey/v1/approval_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import { type StoredRecordOf, transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import { closing, forgetting } from "./approval-changes.ts";
import type { ApprovalCollections } from "./approval-collections.ts";
import { freedSlot } from "./approval-slots.ts";

/** Returns the changes that delete an approval with the content of its request and all that finds it. */
export async function removal(
  collections: ApprovalCollections,
  before: StoredRecordOf<Approval> | undefined,
): Promise<Change[]> {
  if (before === undefined) return [];
  const { approvals, approvalContents } = collections;
  const { environment, id } = before.value;
  const content = await approvalContents.get(environment, id);
  return [
    ...approvals.change({ before, after: undefined }),
    ...approvalContents.change({ before: content, after: undefined }),
    ...(await closing(collections, before.value)),
    ...(await forgetting(collections, before.value)),
    ...(await freedSlot(collections, before.value)),
  ];
}

interface ApprovedConnection {
  readonly environment: string;
  readonly integration: string;
  readonly id: string;
}

/** Returns the changes that delete a connection's data, with those that delete all of its approvals. */
export async function withApprovals(
  collections: ApprovalCollections,
  { environment, integration, id }: ApprovedConnection,
  others: Promise<readonly Change[]>,
): Promise<readonly Change[]> {
  const under = [environment, integration, id];
  const found = await collections.approvals.pageBy("connection", { under, limit: Number.MAX_SAFE_INTEGER });
  const removed = await Promise.all(found.map((before) => removal(collections, before)));
  return [...(await others), ...removed.flat()];
}

/** The key or the access session that cannot send requests any more. */
export type EndedRequester =
  | { readonly kind: "key"; readonly id: string }
  | { readonly kind: "session"; readonly id: string };

interface RequesterEndOptions {
  readonly store: Store;
  readonly collections: ApprovalCollections;
  readonly audit: Audit;
  readonly world: World;
}

const perCommit = 100;
const reasons = {
  key: "the key of its requester was revoked",
  session: "the access session of its requester has ended",
} as const;

/** Returns the function that ends what a requester could still send: a later key may have the same ID. */
export function createRequesterEnd({ store, collections, audit, world }: RequesterEndOptions) {
  const { approvals, approvalContents } = collections;

  async function ended(before: StoredRecordOf<Approval>, reason: string): Promise<Change[]> {
    const { value } = before;
    const { rememberedUntil: _, ...rest } = value;
    const isUsed = value.state === ApprovalState.USED;
    const content = await approvalContents.get(value.environment, value.id);
    const at = timestampFromMs(world.now());
    const after = isUsed ? rest : { ...rest, state: ApprovalState.EXPIRED, reason, expiresAt: at };
    return [
      ...approvals.change({ before, after }),
      ...approvalContents.change({ before: content, after: undefined }),
      ...(await closing(collections, value)),
      ...(await forgetting(collections, value)),
      ...(await freedSlot(collections, value)),
      ...audit.changes({
        actor: "latchkey",
        action: "approval.expire",
        environment: value.environment,
        targets: [value.id],
        fields: ["requester"],
      }),
    ];
  }

  return async ({ kind, id }: EndedRequester): Promise<void> => {
    for (;;) {
      const { revision } = await transact(store, async () => {
        const found = await approvals.pageBy("requester", { under: [kind, id], limit: perCommit });
        const changes = await Promise.all(found.map((before) => ended(before, reasons[kind])));
        return { changes: changes.flat(), result: undefined };
      });
      if (revision === 0) return;
    }
  };
}
