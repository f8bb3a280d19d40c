import { create } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { outgoingFields } from "../../core/outgoing/outgoing-fields.ts";
import { mistakeInPath } from "../../core/outgoing/provider-path.ts";
import { decisionOf, holdersText, refusalText } from "../../core/policies/decisions.ts";
import type { JudgedBody } from "../../core/policies/judged-body.ts";
import type { PolicyExplanation } from "../../core/policies/policy-set.ts";
import { LazyRequestFacts } from "../../core/policies/request-facts.ts";
import {
  type ExplainPoliciesRequest,
  type ExplainPoliciesResponse,
  ExplainPoliciesResponseSchema,
  type Policy,
  PolicyOutcome,
  type PolicyResult,
  PolicyResultSchema,
} from "../../gen/latchkey/v1/policy_pb.ts";
import type { Attachments } from "../credentials/attachments.ts";
import type { Live } from "../credentials/live-connections.ts";
import type { Caller } from "../setup/caller.ts";
import type { PoliciesInForce } from "./policies-in-force.ts";
import { judgedRequest, scopesOf } from "./policy-gate.ts";

/** Says what the policies in force would do with a request. Sends nothing. */
export type ExplainPolicies = (request: ExplainPoliciesRequest, caller: Caller) => Promise<ExplainPoliciesResponse>;

interface ExplainPoliciesOptions {
  readonly inForce: PoliciesInForce;
  readonly live: Pick<Live, "get">;
  readonly attachments: Attachments;
  readonly callerOf: (key: string) => Caller | undefined;
  readonly world: World;
}

export function createExplainPolicies(options: ExplainPoliciesOptions): ExplainPolicies {
  const { inForce, live, attachments, callerOf, world } = options;
  return async (request, asking) => {
    const { connection: ref, path, method } = request;
    if (ref === undefined) throw new Error("a validated request names its connection");
    const mistake = mistakeInPath(path);
    if (mistake !== undefined) throw new Fault("invalid_path", mistake);
    const found = await live.get(ref);
    const { binding } = attachments(found);
    const { origin, basePath } = binding.addressFor(path);
    const rawHeaders = Object.entries(request.headers).flat();
    const named = request.key === "" ? asking : callerOf(request.key);
    if (named === undefined) throw new Fault("not_found", `there is no key "${request.key}"`);
    const session = request.accessSession === "" ? undefined : { id: request.accessSession };
    const judged = judgedRequest(
      {
        method: method === "" ? "GET" : method,
        host: new URL(origin).host,
        basePath,
        path,
        rawHeaders,
        sentHeaders: () => outgoingFields(rawHeaders, { replaced: new Set(), key: undefined }).pairs,
        body: bodyOf(request),
        caller: { ...named, ...(session && { accessSession: session }) },
        live: found,
      },
      request.time === undefined ? world.now() : timestampMs(request.time),
    );
    const facts = new LazyRequestFacts(judged);
    const explanation = inForce.of(ref.environment)?.explain(facts, scopesOf(judged));
    const byId = new Map(inForce.all(ref.environment).map((policy) => [policy.id, policy]));
    const shownPath = facts.path;
    return create(ExplainPoliciesResponseSchema, {
      outcome: outcomeOf(explanation),
      reason: (explanation && refusalText(explanation.verdict)) ?? sentText(explanation),
      policies: explanation === undefined ? [] : resultsOf(explanation, byId),
      host: judged.host,
      path: typeof shownPath === "string" ? shownPath : `error: ${shownPath.message}`,
    });
  };
}

const bodyOf = ({ body }: ExplainPoliciesRequest): JudgedBody =>
  body.length === 0 ? { kind: "none" } : { kind: "bytes", bytes: body };

function outcomeOf(explanation: PolicyExplanation | undefined): PolicyOutcome {
  const decision = explanation === undefined ? "allowed" : decisionOf(explanation.verdict);
  if (decision === "held") return PolicyOutcome.HELD;
  return decision === "allowed" ? PolicyOutcome.ALLOWED : PolicyOutcome.DENIED;
}

/** Explains why a request is not refused. */
function sentText(explanation: PolicyExplanation | undefined): string {
  if (explanation === undefined) return "the environment has no policies";
  const { verdict } = explanation;
  if (verdict.outcome === "held") return `${holdersText(verdict.by)} must be answered by a person first`;
  const matched = explanation.looked.filter(({ rule, result }) => rule.effect === "allow" && result === true);
  if (matched.length === 0) return "no policy refuses the request";
  return `allowed by ${matched.map(({ rule }) => `"${rule.id}"`).join(", ")}`;
}

const effectOrder = ["deny", "allow", "hold", "log"];

const resultsOf = ({ looked }: PolicyExplanation, byId: ReadonlyMap<string, Policy>): PolicyResult[] =>
  [...looked]
    .sort((a, b) => effectOrder.indexOf(a.rule.effect) - effectOrder.indexOf(b.rule.effect))
    .map(({ rule, result }) => {
      const policy = byId.get(rule.id);
      return create(PolicyResultSchema, {
        ...(policy && { policy }),
        matched: result === true,
        error: typeof result === "boolean" ? "" : result.message,
      });
    });
