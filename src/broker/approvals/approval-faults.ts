import { timestampDate, timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault, type FaultCode } from "../../base/fault.ts";
import { approvalStateName, currentState } from "../../core/approvals/approval-state.ts";
import { type Approval, ApprovalState } from "../../gen/latchkey/v1/approval_pb.ts";

/** A client that polls asks again after this time. */
const retryAfterSeconds = 5;

const policyNames = ({ policies }: Approval): string => policies.map(({ id }) => `"${id}"`).join(", ");

/** Returns the answer to the caller of a request that may not be sent now. */
export function approvalFault(approval: Approval, nowMs: number): Fault {
  const { id, reason, expiresAt } = approval;
  const state = currentState(approval, nowMs);
  if (state === ApprovalState.DENIED) {
    return faultOf("approval_denied", `the approval ${id} was denied${reason === "" ? "" : `: ${reason}`}`, approval);
  }
  if (state === ApprovalState.EXPIRED) {
    const why = reason === "" ? "the request was not approved in time" : `the approval has ended: ${reason}`;
    const message = `${why} (approval ${id})`;
    return faultOf("approval_denied", message, { ...approval, state });
  }
  if (state === ApprovalState.USED) return usedFault(approval);
  const until = expiresAt === undefined ? "" : `, until ${timestampDate(expiresAt).toISOString()}`;
  return faultOf(
    "approval_required",
    `the request was not sent: ${policyNames(approval)} holds it until a person approves it; send the same request again with the header Latchkey-Approval: ${id}${until}`,
    approval,
    secondsLeft(approval, nowMs),
  );
}

/** Returns the fault for another request than the one that was approved. */
export const mismatchFault = (approval: Approval): Fault =>
  faultOf(
    "approval_mismatch",
    `the request is not the one that the approval ${approval.id} is for: its method, URL, headers or body differ`,
    approval,
  );

/** Returns the fault for an approval that was used: its request may have reached the provider. */
export const usedFault = (approval: Approval): Fault =>
  faultOf(
    "approval_used",
    `the approval ${approval.id} was used: its request was sent; for another one, leave Latchkey-Approval out`,
    approval,
  );

const secondsLeft = ({ expiresAt }: Approval, nowMs: number): number =>
  Math.max(
    1,
    Math.min(retryAfterSeconds, Math.ceil(((expiresAt === undefined ? 0 : timestampMs(expiresAt)) - nowMs) / 1_000)),
  );

function faultOf(code: FaultCode, message: string, approval: Approval, seconds?: number): Fault {
  const { id, state, digest, expiresAt } = approval;
  return Fault.withoutStack(code, message, {
    ...(seconds !== undefined && { retryAfterSeconds: seconds }),
    metadata: { approval: id, state: approvalStateName(state) },
    payload: {
      approval: id,
      state: approvalStateName(state),
      digest,
      expires_at: expiresAt === undefined ? null : timestampDate(expiresAt).toISOString(),
    },
  });
}
