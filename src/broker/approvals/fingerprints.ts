import { hash } from "node:crypto";
import { requesterText } from "../../core/approvals/requester.ts";
import type { Approval } from "../../gen/latchkey/v1/approval_pb.ts";

type FingerprintedApproval = Pick<
  Approval,
  "requester" | "policies" | "connection" | "method" | "url" | "digest" | "tool"
>;

const sha256 = (parts: readonly unknown[]): string => hash("sha256", JSON.stringify(parts));

/** Identifies a request and its requester: an equal one that is repeated belongs to the same approval. */
export const requestFingerprint = ({ requester, digest }: FingerprintedApproval): string =>
  sha256([requester && requesterText(requester), digest]);

/**
 * Identifies the requests that one answer may cover: all but query, headers and body are the same. All tools of an MCP
 * server have one URL: an answer about one says nothing about another.
 */
export function memoryFingerprint(approval: FingerprintedApproval): string {
  const { requester, policies, connection, method, url, tool } = approval;
  const { origin, pathname } = new URL(url);
  return sha256([
    requester && requesterText(requester),
    policies.map(({ id }) => id).sort(),
    connection?.integration,
    connection?.id,
    method,
    origin,
    pathname,
    ...(tool === "" ? [] : [tool]),
  ]);
}
