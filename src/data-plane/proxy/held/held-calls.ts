import { Fault } from "../../../base/fault.ts";
import type { World } from "../../../base/world.ts";
import { approvalFault } from "../../../broker/approvals/approval-faults.ts";
import type { ApprovalQuestion, ApprovalRequests } from "../../../broker/approvals/approval-requests.ts";
import { currentState } from "../../../core/approvals/approval-state.ts";
import { type HeldRequest, shownContent } from "../../../core/approvals/held-request.ts";
import { waitPreference, withoutWaitPreference } from "../../../core/approvals/preferences.ts";
import { requesterOf } from "../../../core/approvals/requester.ts";
import { credentialFieldNames } from "../../../core/outgoing/outgoing.ts";
import { outgoingFields } from "../../../core/outgoing/outgoing-fields.ts";
import { holdersText } from "../../../core/policies/decisions.ts";
import type { PolicyMatch } from "../../../core/policies/policy-set.ts";
import { type Approval, ApprovalState } from "../../../gen/latchkey/v1/approval_pb.ts";
import { type HeldMessage, heldMessage } from "../../mcp/held-message.ts";
import { headerOf } from "../caller-lookup.ts";
import { secretsOf, withoutSecrets } from "../path-secrets.ts";
import type { ObservedCall, ProviderCall } from "../provider-call.ts";

/** Keeps requests that policies hold until people have answered. Latchkey never sends one by itself. */
export interface HeldCalls {
  /** Resolves with what may be sent now: at once, unless a policy holds the call. Rejects with the caller's answer. */
  admit(held: HeldCall): Promise<AdmittedCall>;
}

/** What may be sent. */
interface AdmittedCall {
  readonly ready: ProviderCall;
  readonly content: Uint8Array | undefined;
}

interface HeldCall {
  readonly context: ObservedCall;
  readonly ready: ProviderCall;
  /** Undefined: the request has no body. */
  readonly content: Uint8Array | undefined;
  /** Prepares the call again after a wait: key, limits, policies and connection may have changed. */
  readonly again: () => Promise<ProviderCall>;
  /** Counts the call in the budget of its caller. */
  readonly spend: (call: ProviderCall) => Promise<void> | undefined;
}

interface HeldCallsOptions {
  /** Origin of the dashboard; undefined: there is none. */
  readonly dashboard: () => string | undefined;
  /** Undefined where there is no store: held calls are refused. */
  readonly approvals: ApprovalRequests | undefined;
  readonly world: World;
}

export function createHeldCalls({ approvals, dashboard, world }: HeldCallsOptions): HeldCalls {
  const waits = world.metrics.approvalWaits.series({});

  /** Waits on the connection of the caller, as long as the caller wants. */
  async function answered(requests: ApprovalRequests, approval: Approval, wait: CallerWait): Promise<Approval> {
    const leaving = new AbortController();
    const stop = whenGone(wait.context, () => leaving.abort());
    waits.add(1);
    try {
      return await requests.settled(approval, { untilMs: world.now() + wait.ms, signal: leaving.signal });
    } finally {
      waits.add(-1);
      stop();
    }
  }

  function logHeld({ caller, live }: ProviderCall, { id, policies }: Approval): void {
    world.log.info("a request waits for an approval", {
      approval: id,
      policy: policies.map((policy) => policy.id).join(","),
      key: caller.keyId,
      session: caller.accessSession?.id,
      environment: live.integration.environment,
      integration: live.integration.key,
      connection: live.connection.ref?.id,
    });
  }

  async function admitHeld(requests: ApprovalRequests, held: HeldCall, message?: HeldMessage): Promise<AdmittedCall> {
    const { context, again, spend } = held;
    const content = message?.content ?? held.content;
    let { ready } = held;
    let by = holders(ready);
    if (by === undefined) return { ready, content };
    let question = questionOf({ context, ready, content, message, by });
    const { kind, approval } = await requests.ask(question);
    let current = approval;
    const refuse = () => {
      const fault = faultFor(context, current, world.now());
      if (fault.code !== "approval_required" || message === undefined) return fault;
      return message.waiting(fault, { id: current.id, page: pageOf(dashboard(), current) });
    };
    if (kind === "asked" && isWaiting(current, world.now())) {
      logHeld(ready, current);
      const ms = waitMsOf(context, by);
      if (ms > 0) current = await answered(requests, current, { context, ms });
      if (ms === 0 || isWaiting(current, world.now())) throw refuse();
      ready = await again();
      by = holders(ready);
      if (by === undefined) return { ready, content };
      question = { ...questionOf({ context, ready, content, message, by }), named: current.id };
      current = (await requests.ask(question)).approval;
    }
    if (kind === "asked" && currentState(current, world.now()) !== ApprovalState.APPROVED) throw refuse();
    await spend(ready);
    if (kind === "asked") await requests.use(current);
    return { ready: sendable(ready), content };
  }

  return {
    async admit(held) {
      const { ready, content } = held;
      const by = holders(ready);
      if (by === undefined) return { ready, content };
      if (approvals === undefined) {
        const message = `${holdersText(by)} must be answered by a person, which is not possible here`;
        throw new Fault("denied_by_policy", message);
      }
      const message = heldMessage(ready, content);
      if (message === undefined) return admitHeld(approvals, held);
      try {
        return await admitHeld(approvals, held, message);
      } catch (error) {
        throw error instanceof Fault && error.answer !== undefined ? error : message.refused(error);
      }
    },
  };
}

/** Returns the URL of an approval's page; undefined: there is no dashboard. */
export const pageOf = (
  origin: string | undefined,
  { environment, id }: Pick<Approval, "environment" | "id">,
): string | undefined =>
  origin === undefined
    ? undefined
    : `${origin}/ui/approvals?${new URLSearchParams({ env: environment, approval: id }).toString()}`;

interface CallerWait {
  readonly context: ObservedCall;
  readonly ms: number;
}

const isWaiting = (approval: Approval, nowMs: number): boolean =>
  currentState(approval, nowMs) === ApprovalState.WAITING;

/** Returns the policies that hold a call; undefined if none does. */
const holders = ({ verdict }: ProviderCall): readonly PolicyMatch[] | undefined =>
  verdict?.outcome === "held" ? verdict.by : undefined;

/** Returns the answer to the caller. Its location is a path of the listener, if the request came to one. */
function faultFor({ alias, forward }: ObservedCall, approval: Approval, nowMs: number): Fault {
  const fault = approvalFault(approval, nowMs);
  if (fault.code !== "approval_required" || alias !== undefined || forward !== undefined) return fault;
  return Fault.withoutStack(fault.code, fault.message, {
    ...(fault.retryAfterSeconds !== undefined && { retryAfterSeconds: fault.retryAfterSeconds }),
    ...(fault.payload !== undefined && { payload: fault.payload }),
    metadata: { ...fault.metadata, location: `/approvals/${approval.id}` },
  });
}

function waitMsOf({ request, longestWaitMs = Number.POSITIVE_INFINITY }: ObservedCall, by: readonly PolicyMatch[]) {
  const { isAsync, waitMs } = waitPreference(headerOf(request, "prefer"));
  if (isAsync) return 0;
  return Math.min(longestWaitMs, waitMs ?? Math.min(...by.map(({ rule }) => rule.hold.waitMs)));
}

/** Returns the call as it is sent: without what was for Latchkey, and once. */
const sendable = (ready: ProviderCall): ProviderCall => ({
  ...ready,
  proxied: { ...ready.proxied, rawHeaders: withoutWaitPreference(ready.proxied.rawHeaders), memo: undefined },
  options: { ...ready.options, retries: 0 },
});

interface QuestionedCall extends Pick<HeldCall, "context" | "ready" | "content"> {
  readonly message: HeldMessage | undefined;
  readonly by: readonly PolicyMatch[];
}

const noContent = new Uint8Array();

function questionOf({ context, ready, content = noContent, message, by }: QuestionedCall): ApprovalQuestion {
  const { caller, live, attachment, options, origin, host, basePath, proxied } = ready;
  const { method, path, rawHeaders, key } = proxied;
  const { integration, connection, provider } = live;
  const withheld = { replaced: credentialFieldNames(attachment), key };
  const request: HeldRequest = {
    environment: integration.environment,
    integration: integration.key,
    connection: connection.ref?.id ?? "",
    token: options.token ?? "",
    subject: live.subject,
    method,
    url: `${origin.scheme}://${host}${basePath}${path}`,
    headers: outgoingFields(withoutWaitPreference(rawHeaders), withheld).pairs,
    body: content,
    comparedBody: message?.compared,
  };
  const secrets = [key ?? "", ...secretsOf(attachment)];
  const hide = (text: string) => withoutSecrets(text, secrets);
  return {
    request,
    requester: requesterOf(caller),
    rules: by.map(({ rule }) => rule),
    provider: provider.name,
    content: () => shownContent(request, hide),
    shownUrl: hide(request.url),
    tool: hide(message?.tool ?? ""),
    named: message?.approval || (headerOf(context.request, "latchkey-approval") ?? ""),
  };
}

/** Calls back once the caller has left, until the returned function is called. */
function whenGone({ socket, response }: ObservedCall, run: () => void): () => void {
  if (socket === undefined) {
    response.once("close", run);
    return () => void response.off("close", run);
  }
  socket.once("close", run);
  return () => void socket.off("close", run);
}
