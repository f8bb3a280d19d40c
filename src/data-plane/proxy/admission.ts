import { Fault } from "../../base/fault.ts";
import type { ApprovalRequests } from "../../broker/approvals/approval-requests.ts";
import type { GatedRequest, PolicyGate } from "../../broker/policies/policy-gate.ts";
import type { Access } from "../../broker/setup/access.ts";
import {
  type Caller,
  mayCallTool,
  requireConnectionWithin,
  requireRequestWithin,
  spendRequest,
  trySpendRequest,
} from "../../broker/setup/caller.ts";
import { isGrpc } from "../../core/outgoing/grpc.ts";
import { credentialFieldNames } from "../../core/outgoing/outgoing.ts";
import { outgoingFields } from "../../core/outgoing/outgoing-fields.ts";
import { bothVerdicts } from "../../core/policies/decisions.ts";
import { tooLarge } from "../../core/policies/json-value.ts";
import type { JudgedBody } from "../../core/policies/judged-body.ts";
import { policyLimits } from "../../core/policies/limits.ts";
import { anyCallOf } from "../../core/policies/message-facts.ts";
import type { PolicyMatch, Verdict } from "../../core/policies/policy-set.ts";
import { EvaluationFailure } from "../../core/policies/values.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { FrontHead } from "../../relay/client/incoming.ts";
import { type CallerStreams, createCallerStreams } from "./caller-streams.ts";
import type { ProviderCall } from "./provider-call.ts";

/**
 * Decides whether a request may be sent to a provider, for every way by which requests come: both lanes, WebSockets,
 * `SendRequest`. Its checks cost nothing for a caller that none of them concerns.
 */
export interface Admission {
  /** Throws if the caller may not use the connection. Called before the connection is looked up. */
  requireConnection(caller: Caller, ref: ConnectionRef): void;
  /** Throws if the call may not be sent. Called with each prepared call, also with one that gets new credentials. */
  requireRequest(call: AdmissibleCall): void;
  /** Counts an admitted call, without a promise if this process may. Rejects if the budget of its caller is used up. */
  spend(call: Pick<AdmissibleCall, "caller">): Promise<void> | undefined;
  /** Counts it only if that needs no promise; returns whether it did. */
  trySpend(caller: Caller): boolean;
  /** Cuts what is still open once its caller may not have it any more. */
  readonly streams: CallerStreams;
  /** Returns the caller with what it may do now. Throws if it would be refused now. */
  callerNow(caller: Caller): Caller;
  /** Returns what policies say about a call whose body was not read; undefined: there are none. */
  judge(call: AdmissibleCall, request: FrontHead): Verdict | undefined;
  /** Does the same for a call whose body was read. */
  judgeWithBody(call: AdmissibleCall, content: Uint8Array): Verdict | undefined;
  /** Returns which tools of an MCP server the caller may call, whatever the arguments; undefined: all of them. */
  toolCheck(call: AdmissibleCall): ToolCheck | undefined;
  /** Counts and logs a verdict. Throws `denied_by_policy` unless the call may be sent. Called once for each request. */
  enforce(call: AdmissibleCall, verdict: Verdict): void;
  /** Asks people about held calls. Undefined where there is no store, and held calls are refused. */
  readonly approvals: ApprovalRequests | undefined;
  /** Returns the origin of the dashboard, where people answer; undefined: there is none. */
  readonly dashboard: () => string | undefined;
}

export type ToolCheck = (tool: string) => boolean;

/** A call as it will be sent, and who sends it. */
export type AdmissibleCall = Pick<
  ProviderCall,
  "caller" | "live" | "proxied" | "host" | "basePath" | "attachment" | "message"
>;

interface AdmissionOptions {
  readonly access: Pick<Access, "currentCaller">;
  readonly policyGate: PolicyGate;
  readonly approvalRequests?: ApprovalRequests;
  readonly dashboard?: () => string | undefined;
}

const noDashboard = () => undefined;

export const createAdmission = ({
  access,
  policyGate,
  approvalRequests,
  dashboard = noDashboard,
}: AdmissionOptions): Admission => ({
  approvals: approvalRequests,
  dashboard,
  requireConnection: requireConnectionWithin,
  requireRequest({ caller, proxied, host, basePath }) {
    if (caller.limits === undefined) return;
    const { method, path, rawHeaders } = proxied;
    requireRequestWithin(caller, { method, host, basePath, path, rawHeaders });
  },
  spend: ({ caller }) => (caller.accessSession === undefined ? undefined : spendRequest(caller)),
  trySpend: trySpendRequest,
  streams: createCallerStreams(access),
  callerNow: (caller) => callerNow(access, caller),
  judge(call, request) {
    if (!policyGate.hasPolicies(call.live)) return undefined;
    const body = unreadBody(call, request);
    const verdict = policyGate.judge(gatedRequest(call, body));
    const isForLogAlone = verdict !== undefined && verdict.outcome !== "unknown" && needsBody(verdict);
    // A stream is not held back for a policy that only logs.
    if (!isForLogAlone || body.kind !== "unread" || body.size !== undefined) return withMessage(call, verdict);
    const unread = { kind: "refused", failure: streamed, size: undefined } as const;
    return withMessage(call, policyGate.judge(gatedRequest(call, unread)));
  },
  judgeWithBody: (call, content) =>
    withMessage(call, policyGate.judge(gatedRequest(call, { kind: "bytes", bytes: content }))),
  toolCheck(call) {
    const { caller, live } = call;
    const isJudged = policyGate.readsMessages(live);
    if (!isJudged && caller.limits?.limitsTools !== true) return undefined;
    return (tool) => mayCallTool(caller, tool) && (!isJudged || isPossible(policyGate.judge(anyCall(call, tool))));
  },
  enforce: (call, verdict) => policyGate.enforce(gatedRequest(call, noBody), verdict),
});

/** Returns a caller with what it may do now. Throws if it would be refused now. */
export function callerNow(access: Pick<Access, "currentCaller">, caller: Caller): Caller {
  if (caller.session !== undefined) return caller;
  const now = access.currentCaller(caller);
  if (now === undefined) throw new Fault("unknown_key", "the key or session of this request has just ended");
  // A control key sends requests in the environment of a connection.
  return now.environment === caller.environment ? now : { ...now, environment: caller.environment };
}

const isUnknown = ({ result }: PolicyMatch): boolean => typeof result !== "boolean" && result.isUnknown;

/** Returns whether the body must be read, so that the request can be judged or logged. */
export const needsBody = (verdict: Verdict | undefined): boolean =>
  verdict !== undefined && (verdict.outcome === "unknown" || verdict.logged.some(isUnknown));

/** Returns whether a call may be sent, as far as its verdict is known. */
export const isPossible = (verdict: Verdict | undefined): boolean =>
  verdict === undefined || (verdict.outcome !== "denied" && verdict.outcome !== "not allowed");

/** Returns the request of a tool whose arguments are not known. */
const anyCall = (call: AdmissibleCall, tool: string): GatedRequest => ({
  ...gatedRequest(call, { kind: "unread", size: 0 }),
  message: anyCallOf(tool),
});

/** Returns whether a call waits for an approval, unless its body decides something else. */
export const isHeld = (verdict: Verdict | undefined): boolean => verdict?.outcome === "held";

/**
 * Adds what policies say of the message that asks for a request to an MCP server, whose body is a message of its own. A
 * person who approves such a request answers for both: what is sent is all that the message asks for.
 */
function withMessage({ message, live, caller }: AdmissibleCall, verdict: Verdict | undefined): Verdict | undefined {
  if (message === undefined || live.provider.mcp === undefined) return verdict;
  return bothVerdicts(message.judge({ caller, connection: live.connection }), verdict);
}

const noBody: JudgedBody = { kind: "none" };
const streamed = new EvaluationFailure("the body is a stream");
const isCall = new EvaluationFailure("the body is a stream of gRPC messages");

/** Returns a body that was not read, or why it cannot be. */
function unreadBody({ proxied, live }: AdmissibleCall, { headers }: FrontHead): JudgedBody {
  if (proxied.body === "none") return noBody;
  const length = Number(headers["content-length"]);
  const size = proxied.body === "length" && Number.isInteger(length) ? length : undefined;
  if (isGrpc(headers["content-type"])) return { kind: "refused", failure: isCall, size };
  const most = live.provider.mcp === undefined ? policyLimits.bodyBytes : policyLimits.messageBytes;
  if (size !== undefined && size > most) return { kind: "refused", failure: tooLarge, size };
  return { kind: "unread", size };
}

function gatedRequest(call: AdmissibleCall, body: JudgedBody): GatedRequest {
  const { caller, live, proxied, host, basePath, attachment, message } = call;
  const { method, path, rawHeaders, key } = proxied;
  return {
    method,
    host,
    basePath,
    path,
    rawHeaders,
    sentHeaders: () => outgoingFields(rawHeaders, { replaced: credentialFieldNames(attachment), key }).pairs,
    body,
    caller,
    live,
    // The body of a request to an MCP server is a message of its own.
    ...(live.provider.mcp === undefined && { message: message?.facts }),
  };
}
