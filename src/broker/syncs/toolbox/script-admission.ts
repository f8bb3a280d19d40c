import { create } from "@bufbuild/protobuf";
import type { World } from "../../../base/world.ts";
import { currentState } from "../../../core/approvals/approval-state.ts";
import { type HeldRequest, shownContent } from "../../../core/approvals/held-request.ts";
import { calledTool } from "../../../core/policies/message-facts.ts";
import type { PolicyMatch } from "../../../core/policies/policy-set.ts";
import { attachedSecrets } from "../../../core/secrets/attached-secrets.ts";
import { ApprovalRequesterSchema, ApprovalState } from "../../../gen/latchkey/v1/approval_pb.ts";
import { approvalFault } from "../../approvals/approval-faults.ts";
import type { ApprovalQuestion, ApprovalRequests } from "../../approvals/approval-requests.ts";
import type { ConnectionRequestTarget } from "../../credentials/connection-request.ts";
import type { LiveConnection } from "../../credentials/live-connections.ts";
import type { GatedRequest, PolicyGate } from "../../policies/policy-gate.ts";
import type { ScriptRequest } from "./script-request.ts";

/**
 * Rejects for a script's request that policies refuse, or that no person has approved. Resolves to true for a request
 * that was approved, which is sent once: without retries.
 */
export type AdmitScriptRequest = (sent: AdmissibleScriptRequest) => Promise<boolean>;

interface AdmissibleScriptRequest {
  /** Name of the script. */
  readonly script: string;
  readonly signal: AbortSignal;
  readonly request: ScriptRequest;
  readonly live: LiveConnection;
  readonly target: ConnectionRequestTarget;
  /** False for a repetition: it counts only if it is refused. */
  readonly isFirst: boolean;
  /** Target of the same request that a person has approved before. */
  readonly approved: ConnectionRequestTarget | undefined;
}

/** What decides about the requests of scripts. */
export interface ScriptAdmissionSources {
  readonly policyGate: PolicyGate;
  readonly approvalRequests: ApprovalRequests;
}

interface ScriptAdmissionOptions extends ScriptAdmissionSources {
  readonly shared: { readonly world: World };
}

/** A script waits no longer for a person: the next run sends the same request again, and finds the answer. */
const maxWaitMs = 60_000;

export function createScriptAdmission(options: ScriptAdmissionOptions): AdmitScriptRequest {
  const { policyGate, approvalRequests: approvals, shared } = options;
  const { world } = shared;

  async function requireApproved(sent: AdmissibleScriptRequest, by: readonly PolicyMatch[]): Promise<void> {
    const { kind, approval } = await approvals.ask(questionOf(sent, by));
    if (kind === "remembered") return;
    const waitMs = Math.min(maxWaitMs, ...by.map(({ rule }) => rule.hold.waitMs));
    const answered = await approvals.settled(approval, { untilMs: world.now() + waitMs, signal: sent.signal });
    if (currentState(answered, world.now()) !== ApprovalState.APPROVED) throw approvalFault(answered, world.now());
    await approvals.use(answered);
  }

  return async (sent) => {
    const gated = gatedRequest(sent);
    const verdict = policyGate.judge(gated);
    if (verdict === undefined) return false;
    const isHeld = verdict.outcome === "held";
    const isApproved = isHeld && isSameTarget(sent);
    if (sent.isFirst || !(isApproved || verdict.outcome === "allowed")) policyGate.enforce(gated, verdict);
    if (isHeld && !isApproved) await requireApproved(sent, verdict.by);
    return isHeld;
  };
}

const isSameTarget = ({ target, approved }: AdmissibleScriptRequest): boolean =>
  approved !== undefined && approved.origin === target.origin && approved.basePath === target.basePath;

function gatedRequest({ script, request, live, target }: AdmissibleScriptRequest): GatedRequest {
  const { method, path, content } = request;
  const { host, basePath, fields } = target;
  return {
    method,
    host,
    basePath,
    path,
    rawHeaders: fields,
    sentHeaders: () => fields,
    body: content === undefined ? { kind: "none" } : { kind: "bytes", bytes: content },
    caller: { script },
    live,
  };
}

const noContent = new Uint8Array();

function questionOf(
  { script, request, live, target }: AdmissibleScriptRequest,
  by: readonly PolicyMatch[],
): ApprovalQuestion {
  const { integration, connection, provider } = live;
  const { origin, basePath, fields, attachment } = target;
  const held: HeldRequest = {
    environment: integration.environment,
    integration: integration.key,
    connection: connection.ref?.id ?? "",
    token: "",
    method: request.method,
    url: `${origin}${basePath}${request.path}`,
    headers: fields,
    body: request.content ?? noContent,
  };
  const secrets = attachedSecrets(attachment).filter((secret) => secret !== "");
  const hide = (text: string) => secrets.reduce((shown, secret) => shown.replaceAll(secret, "***"), text);
  return {
    request: held,
    requester: create(ApprovalRequesterSchema, { script: `${integration.key}/${script}` }),
    rules: by.map(({ rule }) => rule),
    provider: provider.name,
    content: () => shownContent(held, hide),
    shownUrl: hide(held.url),
    tool: provider.mcp === undefined ? "" : hide(calledTool(held.body)),
    named: "",
  };
}
