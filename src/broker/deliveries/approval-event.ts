import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { Approval } from "../../gen/latchkey/v1/approval_pb.ts";
import type { ApplicationEvent } from "./envelope.ts";

/** A held request that a person is asked about, or the answer. */
export interface ApprovalEvent {
  /** `requested`, `approved` or `denied`. */
  readonly operation: string;
  readonly approval: Approval;
  readonly provider: string;
}

/** Headers and bodies of requests stay here: a key with `approvals:decide` reads them. */
export function toApprovalEvent({ operation, approval, provider }: ApprovalEvent): ApplicationEvent {
  const { id, connection, policies, requester, method, url, tool, digest, expiresAt, decidedBy, reason } = approval;
  return {
    type: "approval",
    connection,
    provider,
    fields: {
      operation,
      success: operation !== "denied",
      approval: {
        id,
        policies: policies.map((policy) => ({ id: policy.id, description: policy.description })),
        requester: {
          key: requester?.key,
          accessSession: requester?.accessSession || undefined,
          identity: requester?.identity || undefined,
          script: requester?.script || undefined,
        },
        method,
        url,
        tool: tool || undefined,
        digest,
        ...(expiresAt !== undefined && { expiresAt: timestampDate(expiresAt).toISOString() }),
        ...(decidedBy !== "" && { decidedBy, reason }),
      },
    },
  };
}
