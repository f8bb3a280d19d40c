import type { World } from "../../base/world.ts";
import type { MessageFacts } from "../../core/policies/message-facts.ts";
import type { JudgedCaller, JudgedParties } from "../../core/policies/party-facts.ts";
import { type PolicySet, readsMessage, type Verdict } from "../../core/policies/policy-set.ts";
import { type JudgedRequest, LazyRequestFacts } from "../../core/policies/request-facts.ts";
import type { JudgedScopes } from "../../core/policies/selection/selections.ts";
import { EvaluationFailure } from "../../core/policies/values.ts";
import { scopeName } from "../../core/scopes.ts";
import type { LiveConnection } from "../credentials/live-connections.ts";
import type { GatedCaller, ScriptCaller } from "./gated-caller.ts";
import type { PolicySets } from "./policies-in-force.ts";
import { createVerdictNotes } from "./verdict-notes.ts";

/** A request as it will be sent, with its connection. */
export interface GatedRequest
  extends Pick<JudgedRequest, "method" | "host" | "basePath" | "path" | "rawHeaders" | "sentHeaders" | "body"> {
  readonly caller: GatedCaller | ScriptCaller;
  readonly live: Pick<LiveConnection, "connection" | "integration" | "provider">;
  /** A message that does not come as the body of the request; undefined: the body of a POST to an MCP server is one. */
  readonly message?: MessageFacts | undefined;
}

/** Judges requests by the policies in force. The same for every way by which requests come. */
export interface PolicyGate {
  /** Returns whether the environment of a connection has policies. */
  hasPolicies(live: Pick<LiveConnection, "integration">): boolean;
  /** Returns whether a policy of the environment reads messages of MCP clients. */
  readsMessages(live: Pick<LiveConnection, "integration">): boolean;
  /** Returns the verdict, without counting it; undefined: the environment has no policies. */
  judge(request: GatedRequest): Verdict | undefined;
  /** Counts and logs a verdict. Throws `denied_by_policy` unless the request is allowed. */
  enforce(request: GatedRequest, verdict: Verdict): void;
}

interface PolicyGateOptions {
  readonly sets: PolicySets;
  /** False in an edge, which is not told the tags and the metadata of connections. */
  readonly knowsConnections: boolean;
  readonly world: World;
}

export function createPolicyGate({ sets, knowsConnections, world }: PolicyGateOptions): PolicyGate {
  const notes = createVerdictNotes(world);

  return {
    hasPolicies: ({ integration }) => sets.of(integration.environment) !== undefined,
    readsMessages({ integration }) {
      const set = sets.of(integration.environment);
      return set !== undefined && readsMessages(set);
    },
    judge(request) {
      const set = sets.of(request.live.integration.environment);
      if (set === undefined) return undefined;
      const whole = judgedRequest(request, world.now());
      const judged = knowsConnections ? whole : { ...whole, connection: connectionOfEdge(whole) };
      return set.judge(new LazyRequestFacts(judged), scopesOf(judged));
    },
    enforce: ({ caller, live: { integration, connection }, method }, verdict) =>
      notes.enforce(verdict, {
        caller,
        environment: integration.environment,
        integration: integration.key,
        connection: connection.ref?.id,
        method,
      }),
  };
}

const readers = new WeakMap<PolicySet, boolean>();

function readsMessages(set: PolicySet): boolean {
  const known = readers.get(set);
  if (known !== undefined) return known;
  const reads = set.rules.some(readsMessage);
  readers.set(set, reads);
  return reads;
}

const notKnown = new EvaluationFailure("an edge does not know the tags and the metadata of connections");

const connectionOfEdge = ({ connection: { id } }: JudgedRequest) => ({ id, tags: notKnown, metadata: notKnown });

export const scopesOf = ({ host, ...parties }: JudgedRequest): JudgedScopes => scopesOfParties(parties, host);

export const scopesOfParties = (
  { integration, caller, connection: { id } }: JudgedParties,
  host: string | undefined,
): JudgedScopes => ({
  integration: integration.key,
  key: caller.key,
  session: caller.session,
  host,
  provider: integration.provider,
  environment: integration.environment,
  connection: typeof id === "string" ? id : undefined,
});

export function judgedRequest(request: GatedRequest, nowMs: number): JudgedRequest {
  const { method, host, basePath, path, rawHeaders, sentHeaders, body, message, caller, live } = request;
  const { connection, integration, provider } = live;
  return {
    method,
    host,
    basePath,
    path,
    rawHeaders,
    sentHeaders,
    body,
    message: message ?? (provider.mcp !== undefined && method === "POST" ? "body" : "none"),
    nowMs,
    caller: judgedCaller(caller),
    integration,
    connection: { id: connection.ref?.id ?? "", tags: connection.tags, metadata: connection.metadata ?? {} },
  };
}

const judgedCallers = new WeakMap<GatedCaller, JudgedCaller>();

export function judgedCaller(caller: GatedCaller | ScriptCaller): JudgedCaller {
  if ("script" in caller) return { key: "", session: "", script: caller.script, identity: {}, scopes: [] };
  const known = judgedCallers.get(caller);
  if (known !== undefined) return known;
  const made = {
    key: caller.keyId,
    session: caller.accessSession?.id ?? "",
    script: "",
    identity: caller.identity === undefined ? {} : { kind: caller.identity.kind, name: caller.identity.name },
    scopes: [...caller.scopes].map(scopeName).sort(),
  };
  judgedCallers.set(caller, made);
  return made;
}
