import { create } from "@bufbuild/protobuf";
import { type ApprovalRequester, ApprovalRequesterSchema } from "../../gen/latchkey/v1/approval_pb.ts";

interface RequestingCaller {
  readonly keyId: string;
  readonly accessSession?: { readonly id: string } | undefined;
  readonly identity?: { readonly kind: string } | undefined;
}

/** Returns the requester of a call. */
export const requesterOf = ({ keyId, accessSession, identity }: RequestingCaller): ApprovalRequester =>
  create(ApprovalRequesterSchema, {
    key: keyId,
    accessSession: accessSession?.id ?? "",
    identity: identity?.kind ?? "",
  });

/** Returns a text that is equal for the same requester only. */
export const requesterText = ({ key, accessSession, identity, script }: ApprovalRequester): string =>
  JSON.stringify([key, accessSession, identity, script]);

/** Returns the requester for people. */
export function requesterName({ key, accessSession, identity, script }: ApprovalRequester): string {
  if (script !== "") return `script ${script}`;
  if (accessSession !== "") return `access session ${accessSession} of ${key}`;
  return identity === "" ? `key ${key}` : `${identity} ${key}`;
}

/** Returns whether a request is the caller's own. A key counts for the access sessions that it has created. */
export const isOwnRequest = ({ key }: ApprovalRequester, { keyId }: RequestingCaller): boolean =>
  key !== "" && key === keyId;
