import type { JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { approvalFault } from "../../broker/approvals/approval-faults.ts";
import type { ApprovalQuestion } from "../../broker/approvals/approval-requests.ts";
import type { Broker } from "../../broker/broker.ts";
import { claimedIdentity } from "../../broker/credentials/on-behalf/subject-tokens.ts";
import type { GatedMessage } from "../../broker/policies/message-gate.ts";
import { type Caller, requireConnectionWithin, requireScope, requireToolWithin } from "../../broker/setup/caller.ts";
import { currentState } from "../../core/approvals/approval-state.ts";
import { type HeldRequest, shownContent } from "../../core/approvals/held-request.ts";
import { requesterOf } from "../../core/approvals/requester.ts";
import { canonicalJson } from "../../core/dialect/canonical-json.ts";
import type { PolicyMatch } from "../../core/policies/policy-set.ts";
import { type Approval, ApprovalState } from "../../gen/latchkey/v1/approval_pb.ts";
import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import { callerNow } from "../proxy/admission.ts";
import type { EndpointCaller } from "./endpoint-caller.ts";
import type { Spend } from "./spend.ts";

/** Resolves once a person has approved a held call, and its budget is spent. Rejects with the caller's answer. */
type AdmitHeldToolCall = (held: HeldToolCall, spend: Spend) => Promise<void>;

interface HeldToolCallsOptions extends Pick<Broker, "approvalRequests" | "access" | "connections"> {
  /** Returns the policies that hold a message; undefined: it may act. Throws if policies refuse it. */
  readonly holders: (gated: GatedMessage) => readonly PolicyMatch[] | undefined;
  readonly world: World;
}

/** A call that waits longer is answered with what it waits for: clients give up after a minute. */
const maxWaitMs = 20_000;

export function createHeldToolCalls(options: HeldToolCallsOptions): AdmitHeldToolCall {
  const { approvalRequests, access, connections, holders, world } = options;
  const waits = world.metrics.approvalWaits.series({});

  async function answered(approval: Approval, ms: number, signal: AbortSignal): Promise<Approval> {
    waits.add(1);
    try {
      return await approvalRequests.settled(approval, { untilMs: world.now() + ms, signal });
    } finally {
      waits.add(-1);
    }
  }

  async function connectionNow(before: Connection | "none", caller: Caller): Promise<Connection | "none"> {
    if (before === "none" || before.ref === undefined) return before;
    requireConnectionWithin(caller, before.ref);
    return (await connections.get(before.ref)).value;
  }

  return async (held, spend) => {
    const { kind, approval } = await approvalRequests.ask(questionOf(held));
    if (kind === "remembered") return spend();
    const ms = Math.min(maxWaitMs, ...held.by.map(({ rule }) => rule.hold.waitMs));
    const leaving = held.call.caller.leaving();
    const current = await answered(approval, ms, leaving);
    if (currentState(current, world.now()) !== ApprovalState.APPROVED) throw approvalFault(current, world.now());
    // Nothing is done for a client that cannot learn of it: the approval stays for its next attempt.
    if (leaving.aborted) throw new Fault("approval_required", "the client has left before its call was approved");
    // Key, limits, policies and connection may have changed meanwhile.
    const caller = callerNow(access, held.gated.caller);
    for (const scope of held.gated.caller.scopes) requireScope(caller, scope);
    requireToolWithin(caller, held.tool);
    const connection = await connectionNow(held.connection, caller);
    const now: HeldToolCall = { ...held, connection, gated: { ...held.gated, caller, connection } };
    const by = holders(now.gated);
    if (by === undefined) return spend();
    const again = await approvalRequests.ask({ ...questionOf({ ...now, by }), named: current.id });
    if (again.kind === "remembered") return spend();
    if (currentState(again.approval, world.now()) !== ApprovalState.APPROVED) {
      throw approvalFault(again.approval, world.now());
    }
    await spend();
    await approvalRequests.use(again.approval);
  };
}

interface HeldToolCall {
  /** The integration of the call, the user that it acts for, and the approval that its client names. */
  readonly call: {
    readonly caller: Pick<EndpointCaller, "subjectToken" | "leaving">;
    readonly integration: { readonly key: string; readonly provider: string } | undefined;
    readonly approval: string;
  };
  readonly tool: string;
  readonly given: JsonObject;
  readonly connection: Connection | "none";
  readonly gated: GatedMessage & { readonly caller: Caller };
  readonly by: readonly PolicyMatch[];
}

const maxDepth = 100;

function questionOf({ call, tool, given, connection, gated, by }: HeldToolCall): ApprovalQuestion {
  const { integration, approval } = call;
  const { subjectToken } = call.caller;
  const body = canonicalJson(given, maxDepth);
  if (body === undefined) throw new Fault("invalid_body", "the arguments are nested too deeply to be approved");
  const request: HeldRequest = {
    environment: gated.environment,
    integration: integration?.key ?? "",
    connection: connection === "none" ? "" : (connection.ref?.id ?? ""),
    token: "",
    subject: subjectToken === undefined ? undefined : claimedIdentity(subjectToken),
    method: "tools/call",
    url: `mcp:/tools/${encodeURIComponent(tool)}`,
    headers: [],
    body: Buffer.from(body),
  };
  return {
    request,
    requester: requesterOf(gated.caller),
    rules: by.map(({ rule }) => rule),
    provider: integration?.provider ?? "",
    content: () => shownContent(request, (text) => text),
    shownUrl: request.url,
    tool,
    named: approval,
  };
}
