import type { PolicyEffect, PolicyRule, PolicyScope } from "../policy-rule.ts";
import { type GatedRule, gatedRule, type PathGates, pathGatesOf } from "./gates.ts";

/** What policies can be about, besides the environment. */
export interface JudgedScopes {
  readonly integration: string;
  readonly key: string;
  /** Empty: none. */
  readonly session: string;
  /** Undefined: not known. */
  readonly host: string | undefined;
  readonly provider: string | undefined;
  readonly environment: string;
  readonly connection?: string | undefined;
}

/** The policies that may match requests of one kind. */
export interface PolicySelection {
  readonly deny: readonly GatedRule[];
  /** By scope: at least one of each group must match. */
  readonly allow: readonly AllowGroup[];
  readonly hold: readonly GatedRule[];
  readonly log: readonly GatedRule[];
  readonly gates: PathGates;
  /** The same without those whose condition is false for a method. */
  readonly byMethod: Map<string, PolicySelection>;
  /** The same for the connections that conditions name, and for all others. */
  readonly byConnection: Map<string, PolicySelection>;
  readonly connections: ReadonlySet<string>;
}

/** The `allow` policies of a scope. */
interface AllowGroup {
  readonly all: readonly PolicyRule[];
  /** Those whose condition may be true. Without any, nothing is allowed. */
  readonly possible: readonly GatedRule[];
}

/** Selections that are kept; callers choose neither integrations nor keys, but there may be many of both. */
const maxSelections = 1_000;
const maxMethods = 20;
const maxConnections = 1_000;

/** By integration, key, session, host and provider. Nested: a name that was looked up before has its hash. */
type SelectionTree = Map<string, Map<string, Map<string, Map<string, Map<string, PolicySelection>>>>>;

/** Returns the policies that a request of a kind may match. */
export function createSelections(rules: readonly PolicyRule[]): (about: JudgedScopes) => PolicySelection {
  let kept: SelectionTree = new Map();
  let size = 0;
  const gated = rules.map(gatedRule);
  const sessions = new Set(rules.flatMap(({ scope }) => (scope.kind === "access_session" ? [scope.name] : [])));

  return (about) => {
    const { integration, key, session, host = "", provider = "" } = about;
    const named = sessions.has(session) ? session : "";
    const known = kept.get(integration)?.get(key)?.get(named)?.get(host)?.get(provider);
    if (known !== undefined) return known;
    if (size >= maxSelections) {
      kept = new Map();
      size = 0;
    }
    const made = select(
      gated.filter(({ rule }) => isAbout(rule.scope, about)),
      about,
    );
    // An integration may be made again with another provider.
    const byKey = within(kept, integration);
    within(within(within(byKey, key), named), host).set(provider, made);
    size += 1;
    return made;
  };
}

function within<V extends Map<string, unknown>>(map: Map<string, V>, name: string): V {
  const known = map.get(name);
  if (known !== undefined) return known;
  const made = new Map() as V;
  map.set(name, made);
  return made;
}

export function isAbout({ kind, name }: PolicyScope, { integration, key, session }: JudgedScopes): boolean {
  switch (kind) {
    case "environment":
      return true;
    case "integration":
      return name === integration;
    case "key":
      return name === key;
    case "access_session":
      return name === session;
  }
}

function select(rules: readonly GatedRule[], about: JudgedScopes): PolicySelection {
  const of = (effect: PolicyEffect) => rules.filter(({ rule }) => rule.effect === effect);
  const groups = Map.groupBy(of("allow"), ({ rule: { scope } }) => `${scope.kind}\0${scope.name}`);
  const allow = [...groups.values()].map((possible) => ({ all: possible.map(({ rule }) => rule), possible }));
  return narrowed({ deny: of("deny"), allow, hold: of("hold"), log: of("log") }, ({ guards: { values } }) => {
    const { host, provider } = about;
    return (
      values["integration.key"]?.has(about.integration) !== false &&
      values["integration.environment"]?.has(about.environment) !== false &&
      values["caller.key"]?.has(about.key) !== false &&
      (host === undefined || values["request.host"]?.has(host) !== false) &&
      (provider === undefined || values["integration.provider"]?.has(provider) !== false)
    );
  });
}

/** Leaves out policies whose condition is false. */
function narrowed(
  { deny, allow, hold, log }: Pick<PolicySelection, "deny" | "allow" | "hold" | "log">,
  fits: (rule: PolicyRule) => boolean,
): PolicySelection {
  const isPossible = ({ rule }: GatedRule) => fits(rule);
  const left = {
    deny: deny.filter(isPossible),
    allow: allow.map(({ all, possible }) => ({ all, possible: possible.filter(isPossible) })),
    hold: hold.filter(isPossible),
    log: log.filter(isPossible),
  };
  const every = [...left.deny, ...left.allow.flatMap(({ possible }) => possible), ...left.hold, ...left.log];
  const connections = every.flatMap(({ rule }) => [...(rule.guards.values["connection.id"] ?? [])]);
  return {
    ...left,
    gates: pathGatesOf(every),
    byMethod: new Map(),
    byConnection: new Map(),
    connections: new Set(connections),
  };
}

/** Leaves out policies whose condition is false for this method. */
export function forMethod(selection: PolicySelection, method: string): PolicySelection {
  const known = selection.byMethod.get(method);
  if (known !== undefined) return known;
  const made = narrowed(selection, ({ guards: { values } }) => values["request.method"]?.has(method) !== false);
  if (selection.byMethod.size < maxMethods) selection.byMethod.set(method, made);
  return made;
}

/** No connection has this ID: it is the key for all connections that no condition names. */
const anyOther = "\0";

/** Leaves out policies whose condition is false for this connection. */
export function forConnection(selection: PolicySelection, id: string): PolicySelection {
  const { connections, byConnection } = selection;
  if (connections.size === 0) return selection;
  const name = connections.has(id) ? id : anyOther;
  const known = byConnection.get(name);
  if (known !== undefined) return known;
  const made = narrowed(selection, ({ guards: { values } }) => values["connection.id"]?.has(id) !== false);
  if (byConnection.size < maxConnections) byConnection.set(name, made);
  return made;
}
