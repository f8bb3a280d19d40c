import { create } from "@bufbuild/protobuf";
import { admitsNoTool } from "../../core/access/intersected-limits.ts";
import { type CallerLimits, compileLimits } from "../../core/access/limits.ts";
import { partialBindingOf } from "../../core/outgoing/binding.ts";
import { effectText, scopeOf } from "../../core/policies/policy-rules.ts";
import type { LimitedConnection, Scope } from "../../gen/latchkey/v1/access_pb.ts";
import {
  type AccessSession,
  type AccessSessionConnection,
  AccessSessionConnectionSchema,
  type AccessSessionPolicy,
  AccessSessionPolicySchema,
  AccessSessionState,
  type ExplainAccessSessionResponse,
  ExplainAccessSessionResponseSchema,
} from "../../gen/latchkey/v1/access_session_pb.ts";
import { type Connection, Connection_State, ConnectionSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Integration } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Policy } from "../../gen/latchkey/v1/policy_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { Records } from "../../store/records.ts";
import type { PoliciesInForce } from "../policies/policies-in-force.ts";
import type { Caller } from "../setup/caller.ts";
import type { Providers } from "../setup/providers.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import type { AccessSessionRef, AccessSessions } from "./access-sessions.ts";
import type { SessionCallers } from "./session-callers.ts";

/** Says what a session may do now, by its limits, its key, policies and connections. Sends nothing. */
export type ExplainAccessSession = (ref: AccessSessionRef, caller: Caller) => Promise<ExplainAccessSessionResponse>;

interface ExplainAccessSessionOptions {
  readonly accessSessions: Pick<AccessSessions, "get">;
  readonly sessionCallers: Pick<SessionCallers, "callerWithDigest">;
  readonly policies: Pick<PoliciesInForce, "all">;
  readonly providers: Pick<Providers, "lookUp">;
  readonly collections: Pick<SetupCollections, "integrations"> & { readonly connections: Records<Connection> };
}

export function createExplainAccessSession(options: ExplainAccessSessionOptions): ExplainAccessSession {
  const { accessSessions, sessionCallers, policies } = options;
  return async (ref, asking) => {
    const session = await accessSessions.get(ref, asking);
    // The caller of the session now: its key may have other limits since.
    const now = sessionCallers.callerWithDigest(session.id);
    const limits = now?.limits ?? compileLimits(session.limits);
    const scopes = [...(now?.scopes ?? [])].sort((a, b) => a - b);
    const named = (limits?.given.connections ?? []).filter(({ integration }) => integration !== "");
    const found = await Promise.all(named.map((one) => connectionOf(options, { environment: ref.environment, one })));
    return create(ExplainAccessSessionResponseSchema, {
      session,
      refusal: refusalOf(session, scopes, named),
      scopes,
      connections: found.map((one) => permissionOf(one, limits)),
      policies: policiesAbout(session, policies.all(ref.environment), named),
    });
  };
}

function refusalOf(session: AccessSession, scopes: readonly Scope[], named: readonly LimitedConnection[]): string {
  const { state, endedBy, budget, budgetLeft } = session;
  if (state === AccessSessionState.EXPIRED) return "the session has expired";
  if (state !== AccessSessionState.ACTIVE) {
    return endedBy === ""
      ? "the session has ended with the key that created it"
      : `the session was ended by ${endedBy}`;
  }
  if (named.length === 0) return "the limits of its key leave no connection";
  if (scopes.length === 0) return "its key has none of the scopes of the session";
  if (budget > 0n && budgetLeft === 0n) return "the budget is used up, but for requests that replicas may hold";
  return "";
}

/** What is known of a connection that the limits of a session name. */
interface ExplainedConnection {
  readonly named: LimitedConnection;
  readonly integration: Integration | undefined;
  readonly provider: Provider | undefined;
  /** Undefined: it does not exist, or every connection of the integration is meant. */
  readonly connection: Connection | undefined;
}

async function connectionOf(
  { collections, providers }: Pick<ExplainAccessSessionOptions, "collections" | "providers">,
  { environment, one: named }: { readonly environment: string; readonly one: LimitedConnection },
): Promise<ExplainedConnection> {
  const integration = (await collections.integrations.get(environment, named.integration))?.value;
  if (integration === undefined) return { named, integration, provider: undefined, connection: undefined };
  const connection =
    named.id === "" ? undefined : (await collections.connections.get(environment, named.integration, named.id))?.value;
  return { named, integration, provider: providers.lookUp(integration.provider), connection };
}

function permissionOf(found: ExplainedConnection, limits: CallerLimits | undefined): AccessSessionConnection {
  const { named, provider, connection } = found;
  const { methods = [], paths = [], tools = [] } = limits?.given ?? {};
  const hosts = hostsOf(found);
  const admitted = hosts.filter((host) => limits?.admitsHost(host) !== false);
  const noTools = limits !== undefined && admitsNoTool(limits.given);
  return create(AccessSessionConnectionSchema, {
    integration: named.integration,
    connection: named.id,
    provider: provider?.name ?? "",
    state: connection?.state ?? Connection_State.UNSPECIFIED,
    mcp: provider?.mcp !== undefined,
    hosts: admitted,
    methods,
    paths,
    tools: noTools ? [] : tools,
    noTools,
    refusal: connectionRefusal(found, limits),
  });
}

/** Returns the hosts of an integration. That of the base URL may depend on the connection. */
function hostsOf({ integration, provider, connection = create(ConnectionSchema) }: ExplainedConnection): string[] {
  if (integration === undefined || provider === undefined) return [];
  const { origins } = partialBindingOf({ connection, integration, provider }).binding;
  return [...new Set([...origins].map((origin) => new URL(origin).host))];
}

function connectionRefusal(found: ExplainedConnection, limits: CallerLimits | undefined): string {
  const { named, integration, provider, connection } = found;
  if (integration === undefined) return "the integration does not exist";
  if (provider === undefined) return "the provider of the integration does not exist";
  if (connection === undefined && named.id !== "") return "the connection does not exist";
  if (connection?.state === Connection_State.REAUTHORIZATION_REQUIRED) return "the user must connect the account again";
  const hosts = hostsOf(found);
  if (limits === undefined || hosts.length === 0) return "";
  if (!hosts.some((host) => limits.admitsHost(host))) return "the limits include no host of the provider";
  if (provider.mcp === undefined) return "";
  const { host, pathname } = new URL(provider.mcp.url);
  const refused = limits.refusalOf({ method: "POST", host, basePath: "", path: pathname, rawHeaders: [] });
  return refused === undefined ? "" : `the limits do not include the ${refused} of messages to the MCP server`;
}

const effectOrder: readonly string[] = ["deny", "allow", "hold", "log"];
const placeOf = ({ effect }: Policy): number => effectOrder.indexOf(effectText(effect) ?? "deny");

/** Returns the policies that are about requests of a session. Policies have the order of their IDs. */
function policiesAbout(
  { id, createdBy }: AccessSession,
  policies: readonly Policy[],
  named: readonly LimitedConnection[],
): AccessSessionPolicy[] {
  const integrations = new Set(named.map(({ integration }) => integration));
  const concerned = policies.flatMap((policy) => {
    const { kind, name } = scopeOf(policy.about);
    const isAbout =
      kind === "environment" ||
      (kind === "integration" && integrations.has(name)) ||
      (kind === "key" && name === createdBy) ||
      (kind === "access_session" && name === id);
    if (policy.disabled || !isAbout) return [];
    return [create(AccessSessionPolicySchema, { policy, integrations: kind === "integration" ? [name] : [] })];
  });
  return concerned.sort((a, b) => (a.policy && b.policy ? placeOf(a.policy) - placeOf(b.policy) : 0));
}
