import type { JsonObject } from "@bufbuild/protobuf";
import { durationMs, type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { approvalStateName } from "../../../core/approvals/approval-state.ts";
import type { Approval, ApprovalContent, ApprovalRequester } from "../../../gen/latchkey/v1/approval_pb.ts";

/** Returns an approval as the JSON routes show it. */
export function approvalJson(approval: Approval): JsonObject {
  const { id, policies, requester, connection, method, url, tool, digest, content, state } = approval;
  return {
    id,
    state: approvalStateName(state),
    policies: policies.map((policy) => ({ id: policy.id, description: policy.description })),
    requester: requester === undefined ? {} : requesterJson(requester),
    integration: connection?.integration ?? "",
    connection_id: connection?.id ?? "",
    method,
    url,
    tool: orNull(tool),
    digest,
    ...(content !== undefined && { content: contentJson(content) }),
    created_at: iso(approval.createdAt),
    expires_at: iso(approval.expiresAt),
    decided_at: iso(approval.decidedAt),
    decided_by: orNull(approval.decidedBy),
    reason: orNull(approval.reason),
    used_at: iso(approval.usedAt),
    longest_memory: approval.longestMemory === undefined ? 0 : durationMs(approval.longestMemory) / 1_000,
    remembered_until: iso(approval.rememberedUntil),
  };
}

const requesterJson = ({ key, accessSession, identity, script }: ApprovalRequester): JsonObject => ({
  key: orNull(key),
  access_session: orNull(accessSession),
  identity: orNull(identity),
  script: orNull(script),
});

const contentJson = ({ headers, body, bodySize }: ApprovalContent): JsonObject => ({
  headers: headers.map(({ name, value }) => ({ name, value })),
  ...bodyJson(body),
  body_size: Number(bodySize),
  body_is_cut: Number(bodySize) > body.length,
});

/** Returns a body as text if it is UTF-8, else as base64. */
function bodyJson(body: Uint8Array): JsonObject {
  const bytes = Buffer.from(body);
  const text = bytes.toString("utf8");
  return Buffer.from(text).equals(bytes) ? { body: text } : { body_base64: bytes.toString("base64") };
}

const orNull = (text: string) => (text === "" ? null : text);
const iso = (at: Timestamp | undefined) => (at === undefined ? null : timestampDate(at).toISOString());
