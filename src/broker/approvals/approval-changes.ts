import type { Approval } from "../../gen/latchkey/v1/approval_pb.ts";
import type { Change } from "../../store/contract.ts";
import type { ApprovalCollections } from "./approval-collections.ts";
import { memoryFingerprint, requestFingerprint } from "./fingerprints.ts";

/** Returns the changes after which a repeated request finds the approval no longer. */
export async function closing({ openApprovals }: ApprovalCollections, approval: Approval): Promise<Change[]> {
  const before = await openApprovals.get(approval.environment, requestFingerprint(approval));
  return before?.value.approvalId === approval.id ? openApprovals.change({ before, after: undefined }) : [];
}

/** Returns the changes that remember an answer until a time. */
export async function remembering(
  { rememberedApprovals }: ApprovalCollections,
  approval: Approval,
  untilMs: number,
): Promise<Change[]> {
  const { environment, id } = approval;
  const fingerprint = memoryFingerprint(approval);
  const before = await rememberedApprovals.get(environment, fingerprint);
  const after = {
    $typeName: "latchkey.stored.v1.RememberedApproval" as const,
    environment,
    fingerprint,
    approvalId: id,
    untilMs,
  };
  return rememberedApprovals.change({ before, after });
}

/** Returns the changes that end what an approval has let a caller do. */
export async function forgetting({ rememberedApprovals }: ApprovalCollections, approval: Approval): Promise<Change[]> {
  const before = await rememberedApprovals.get(approval.environment, memoryFingerprint(approval));
  return before?.value.approvalId === approval.id ? rememberedApprovals.change({ before, after: undefined }) : [];
}

/** Returns the changes that delete every approval of an environment. */
export async function deletionOfAll(
  { approvals, approvalContents, approvalSlots, openApprovals, rememberedApprovals }: ApprovalCollections,
  environment: string,
): Promise<Change[]> {
  const all = { under: [environment], limit: Number.MAX_SAFE_INTEGER };
  const [found, contents, slots, open, remembered] = await Promise.all([
    approvals.page(all),
    approvalContents.page(all),
    approvalSlots.page(all),
    openApprovals.page(all),
    rememberedApprovals.page(all),
  ]);
  return [
    ...found.flatMap((before) => approvals.change({ before, after: undefined })),
    ...contents.flatMap((before) => approvalContents.change({ before, after: undefined })),
    ...slots.flatMap((before) => approvalSlots.change({ before, after: undefined })),
    ...open.flatMap((before) => openApprovals.change({ before, after: undefined })),
    ...remembered.flatMap((before) => rememberedApprovals.change({ before, after: undefined })),
  ];
}
