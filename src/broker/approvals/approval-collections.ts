import {
  type ApprovalSlot,
  ApprovalSlotSchema,
  type OpenApproval,
  OpenApprovalSchema,
  type RememberedApproval,
  RememberedApprovalSchema,
} from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Approval, ApprovalSchema, ApprovalState } from "../../gen/latchkey/v1/approval_pb.ts";
import type { Store } from "../../store/contract.ts";
import { createRecords } from "../../store/records.ts";
import { complete, strip } from "../stored/revisions.ts";
import { bornAt, sortable } from "../stored/sortable-time.ts";

/** Collections of approvals. URLs, headers and bodies of requests are encrypted. */
export function createApprovalCollections(store: Store) {
  const common = { store, schema: ApprovalSchema, secret: true, key: keyOf, keyParts: 2, complete, strip } as const;
  return {
    /** Without the content of the request. */
    approvals: createRecords({
      ...common,
      name: approvalSpace,
      indexes: {
        created: ({ environment, createdAt }: Approval) => [[environment, bornAt(createdAt)]],
        waiting: ({ environment, createdAt, state }: Approval) =>
          state === ApprovalState.WAITING ? [[environment, bornAt(createdAt)]] : [],
        due: ({ expiresAt, state }: Approval) => (isUnfinished(state) ? [[bornAt(expiresAt)]] : []),
        age: ({ createdAt }: Approval) => [[bornAt(createdAt)]],
        connection: ({ connection }: Approval) =>
          connection === undefined ? [] : [[connection.environment, connection.integration, connection.id]],
        requester: (approval: Approval) => (letsMore(approval) ? requesterKeys(approval) : []),
      },
    }),
    /** Only the content of the request. */
    approvalContents: createRecords({ ...common, name: "approval-content" }),
    approvalSlots: createRecords({
      store,
      name: "approval-slot",
      schema: ApprovalSlotSchema,
      key: ({ environment, number }: ApprovalSlot) => [environment, String(number)],
      keyParts: 2,
      indexes: { approval: ({ environment, approvalId }: ApprovalSlot) => [[environment, approvalId]] },
    }),
    openApprovals: createRecords({
      store,
      name: "open-approval",
      schema: OpenApprovalSchema,
      key: ({ environment, fingerprint }: OpenApproval) => [environment, fingerprint],
    }),
    rememberedApprovals: createRecords({
      store,
      name: "remembered-approval",
      schema: RememberedApprovalSchema,
      key: ({ environment, fingerprint }: RememberedApproval) => [environment, fingerprint],
      keyParts: 2,
      indexes: { expiry: ({ untilMs }: RememberedApproval) => [[sortable(untilMs)]] },
    }),
  } as const;
}

export const approvalSpace = "approval";

const keyOf = ({ environment, id }: Approval): string[] => [environment, id];

const isUnfinished = (state: ApprovalState): boolean =>
  state === ApprovalState.WAITING || state === ApprovalState.APPROVED;

/** Whether the requester may yet send something by it. */
const letsMore = ({ state, rememberedUntil }: Approval): boolean =>
  isUnfinished(state) || rememberedUntil !== undefined;

/** A key with those of its access sessions, and each session. Identities and scripts end by their rules. */
function requesterKeys({ requester }: Approval): string[][] {
  if (requester === undefined || requester.key === "" || requester.identity !== "") return [];
  const { key, accessSession } = requester;
  return [["key", key], ...(accessSession === "" ? [] : [["session", accessSession]])];
}

export type ApprovalCollections = ReturnType<typeof createApprovalCollections>;
