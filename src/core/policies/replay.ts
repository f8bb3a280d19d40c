import { reflect } from "@bufbuild/protobuf/reflect";
import { TimestampSchema, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { Policy } from "../../gen/latchkey/v1/policy_pb.ts";
import { isCondition } from "./condition.ts";
import { refusingIds } from "./decisions.ts";
import type { RequestFacts } from "./facts.ts";
import { ruleOf } from "./policy-rules.ts";
import { createPolicySet, type PolicySet, type Verdict } from "./policy-set.ts";
import { decodedPath } from "./request-facts.ts";
import { EvaluationFailure } from "./values.ts";
import type { PolicyVariable } from "./variables.ts";

/** A request of the process log, from the line that records a use of a connection. */
export interface RecordedRequest {
  readonly time: string;
  readonly key: string;
  /** Undefined: an older line, which does not say. */
  readonly session: string | undefined;
  readonly environment: string;
  readonly integration: string;
  readonly provider: string | undefined;
  readonly connection: string;
  /** Undefined: the request asked the provider to take it for one of another method. */
  readonly method: string | undefined;
  readonly host: string | undefined;
  /** With the path of the base URL, without the query. Undefined: not recorded. */
  readonly path: string | undefined;
  /** Method of the message to an MCP server. Undefined: not recorded; so is its tool. */
  readonly mcpMethod: string | undefined;
  readonly mcpTool: string | undefined;
}

const recordedMessage = "a connection was used";

/** Reads a line of the log; undefined for any other line. */
export function recordedRequest(line: string): RecordedRequest | undefined {
  const fields = parsed(line);
  if (fields?.["msg"] !== recordedMessage) return undefined;
  const text = (name: string) => (typeof fields[name] === "string" ? fields[name] : undefined);
  const path = text("path");
  const provider = text("provider");
  // An older line names neither the provider, nor the session, nor the base path.
  const isComplete = provider !== undefined;
  const method = fields["overrides_method"] === true ? undefined : text("method");
  // Messages are sent by POST.
  const mcpMethod = text("mcp_method") ?? (method === undefined || method === "POST" ? undefined : "");
  return {
    time: text("time") ?? "",
    key: text("key") ?? text("identity") ?? "",
    session: isComplete ? (text("session") ?? "") : undefined,
    environment: text("environment") ?? "",
    integration: text("integration") ?? "",
    provider,
    connection: text("connection") ?? "",
    method,
    host: text("host"),
    // A secret in a path was replaced.
    path: path === undefined || !isComplete || path.includes("***") ? undefined : (text("base_path") ?? "") + path,
    mcpMethod,
    mcpTool: text("mcp_tool") ?? (mcpMethod === undefined || mcpMethod === "tools/call" ? undefined : ""),
  };
}

function parsed(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    // Logs of other programs, and lines that were cut off, are not ours to judge.
    return undefined;
  }
}

const unknown = (name: PolicyVariable) => new EvaluationFailure(`${name} is not recorded`, { isUnknown: true });

/** Returns what is known of a recorded request; all other values are unknown. */
function factsOf({ time, path, ...request }: RecordedRequest): RequestFacts {
  const ms = Date.parse(time);
  return {
    method: request.method ?? unknown("request.method"),
    host: request.host ?? unknown("request.host"),
    path: path === undefined ? unknown("request.path") : decodedPath(path),
    rawPath: path ?? unknown("request.raw_path"),
    query: unknown("request.query"),
    headers: unknown("request.headers"),
    body: unknown("request.body"),
    size: unknown("request.size"),
    time: Number.isNaN(ms) ? unknown("request.time") : reflect(TimestampSchema, timestampFromMs(ms)),
    mcpMethod: request.mcpMethod ?? unknown("mcp.method"),
    mcpTool: request.mcpTool ?? unknown("mcp.tool"),
    mcpArguments: unknown("mcp.arguments"),
    callerKey: request.key,
    callerSession: request.session ?? unknown("caller.session"),
    // Identities and scripts leave no such lines without a key.
    callerIdentity: unknown("caller.identity"),
    callerScript: "",
    callerScopes: unknown("caller.scopes"),
    integrationKey: request.integration,
    integrationProvider: request.provider ?? unknown("integration.provider"),
    integrationEnvironment: request.environment,
    connectionId: request.connection,
    connectionTags: unknown("connection.tags"),
    connectionMetadata: unknown("connection.metadata"),
  };
}

export type ReplayedOutcome = "allowed" | "denied" | "held" | "unknown";

/** A recorded request for which two sets of policies may differ. */
export interface ReplayDifference {
  readonly request: RecordedRequest;
  readonly before: ReplayedOutcome;
  readonly after: ReplayedOutcome;
  /** Policies that refuse or hold, or that cannot be replayed. */
  readonly policies: readonly string[];
  /** Why the outcome is not known. */
  readonly reasons: readonly string[];
}

/** Compares what two sets of policies say about recorded requests. */
export interface PolicyReplay {
  /** Returns the difference; undefined if the outcome is certainly the same. */
  compare(request: RecordedRequest): ReplayDifference | undefined;
  /** Whether the policies of an access session matter, and lines without sessions cannot be judged. */
  readonly needsSessions: boolean;
}

export function createReplay(before: readonly Policy[], after: readonly Policy[]): PolicyReplay {
  const former = setsOf(before);
  const next = setsOf(after);
  return {
    needsSessions: [...before, ...after].some(({ about }) => about?.kind.case === "accessSession"),
    compare(request) {
      const facts = factsOf(request);
      const one = judge(former.get(request.environment), facts, request);
      const other = judge(next.get(request.environment), facts, request);
      const outcomes = { before: outcomeOf(one), after: outcomeOf(other) };
      const isSame =
        outcomes.before === "unknown"
          ? outcomes.after === "unknown" && openConditions(one) === openConditions(other)
          : outcomes.before === outcomes.after;
      if (isSame) return undefined;
      const policies = [...new Set([...idsOf(one), ...idsOf(other)])];
      return { request, ...outcomes, policies, reasons: [...new Set([...reasonsOf(one), ...reasonsOf(other)])] };
    },
  };
}

function setsOf(policies: readonly Policy[]): ReadonlyMap<string, PolicySet> {
  const on = policies.filter(({ disabled }) => !disabled);
  const groups = Map.groupBy(on, ({ environment }) => environment);
  return new Map([...groups].map(([name, list]) => [name, createPolicySet(list.map(ruleOf))]));
}

const judge = (set: PolicySet | undefined, facts: RequestFacts, request: RecordedRequest): Verdict | undefined =>
  set?.judge(facts, {
    integration: request.integration,
    key: request.key,
    session: request.session ?? "",
    host: request.host,
    provider: request.provider,
    environment: request.environment,
  });

function outcomeOf(verdict: Verdict | undefined): ReplayedOutcome {
  if (verdict === undefined || verdict.outcome === "allowed") return "allowed";
  return verdict.outcome === "unknown" || verdict.outcome === "held" ? verdict.outcome : "denied";
}

const idsOf = (verdict: Verdict | undefined): readonly string[] => (verdict === undefined ? [] : refusingIds(verdict));

const openMatches = (verdict: Verdict | undefined) => (verdict?.outcome === "unknown" ? verdict.policies : []);

/** Identifies what an unknown outcome depends on: the same conditions with the same effects come to the same. */
const openConditions = (verdict: Verdict | undefined): string =>
  openMatches(verdict)
    .map(({ rule: { effect, scope, condition } }) => {
      const text = isCondition(condition) ? condition.text : condition.message;
      return JSON.stringify([effect, scope.kind, scope.name, text]);
    })
    .sort()
    .join();

const reasonsOf = (verdict: Verdict | undefined): readonly string[] =>
  openMatches(verdict).flatMap(({ result }) => (typeof result === "boolean" ? [] : [result.message]));
