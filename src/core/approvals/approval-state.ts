import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { type Approval, ApprovalState } from "../../gen/latchkey/v1/approval_pb.ts";

const msOf = (at: Timestamp | undefined): number => (at === undefined ? 0 : timestampMs(at));

/** Returns the state of an approval now: time that is over is not stored. */
export function currentState({ state, expiresAt }: Approval, nowMs: number): ApprovalState {
  const isOpen = state === ApprovalState.WAITING || state === ApprovalState.APPROVED;
  return isOpen && msOf(expiresAt) <= nowMs ? ApprovalState.EXPIRED : state;
}

/** Returns whether a repeated request belongs to an approval: a denial holds as long as an approval would. */
export function isOpen(approval: Approval, nowMs: number): boolean {
  const state = currentState(approval, nowMs);
  if (state === ApprovalState.DENIED) return msOf(approval.expiresAt) > nowMs;
  return state === ApprovalState.WAITING || state === ApprovalState.APPROVED;
}

const names: Readonly<Record<ApprovalState, string>> = {
  [ApprovalState.UNSPECIFIED]: "",
  [ApprovalState.WAITING]: "waiting",
  [ApprovalState.APPROVED]: "approved",
  [ApprovalState.DENIED]: "denied",
  [ApprovalState.EXPIRED]: "expired",
  [ApprovalState.USED]: "used",
};

/** Returns a state in JSON, commands and events. */
export const approvalStateName = (state: ApprovalState): string => names[state] ?? "";

/** States by their names. */
export const approvalStatesByName: ReadonlyMap<string, ApprovalState> = new Map(
  Object.entries(names).flatMap(([state, name]): [string, ApprovalState][] =>
    name === "" ? [] : [[name, Number(state) as ApprovalState]],
  ),
);
