import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault, type Mistake } from "../../base/fault.ts";
import { mistakesInAudience } from "../../core/access/audience.ts";
import { mistakesInLimits } from "../../core/access/limit-mistakes.ts";
import { narrowLimits } from "../../core/access/narrower-limits.ts";
import { scopeName } from "../../core/scopes.ts";
import {
  type AccessLimits,
  AccessLimitsSchema,
  type LimitedConnection,
  Scope,
} from "../../gen/latchkey/v1/access_pb.ts";
import {
  type AccessAudience,
  type AccessSession,
  AccessSessionSchema,
} from "../../gen/latchkey/v1/access_session_pb.ts";
import { type Caller, mayDo, requireKeyItself } from "../setup/caller.ts";

/** The session that a key asks for. */
export interface NewAccessSession {
  readonly environment: string;
  readonly limits: AccessLimits | undefined;
  readonly allowSeveral: boolean;
  /** Empty: `proxy` alone. */
  readonly scopes: readonly Scope[];
  readonly audience: AccessAudience | undefined;
  /** Undefined: the usual time. */
  readonly lifetimeMs: number | undefined;
  /** 0: any number of requests. */
  readonly budget: bigint;
  readonly label: string;
  /** The longest life that is allowed takes the place of a longer one. */
  readonly shorten: boolean;
}

/** Lifetimes of sessions, in milliseconds. */
export interface AccessSessionTimes {
  readonly usualMs: number;
  readonly longestMs: number;
}

const sessionScopes: readonly Scope[] = [
  ...[Scope.PROXY, Scope.SYNCS, Scope.CONNECTIONS_READ],
  // Gives connect links for its own connections over MCP. All else that the scope allows refuses sessions.
  Scope.CONNECTIONS_WRITE,
];

interface SessionSource {
  readonly caller: Caller;
  readonly id: string;
  readonly nowMs: number;
  readonly times: AccessSessionTimes;
}

/** Returns the session. Throws all mistakes at once; a session may do no more than its creator. */
export function newAccessSession(wanted: NewAccessSession, source: SessionSource): AccessSession {
  const { caller, id, nowMs, times } = source;
  if (caller.accessSession !== undefined) throw new Fault("not_in_session", "an access session creates no others");
  requireKeyItself(caller, "the token of an access session is not given");
  const { keyMark } = caller;
  if (keyMark === undefined) {
    throw new Fault("key_required", "an access session ends with the key that has created it: send a key");
  }
  const asked = wanted.limits ?? create(AccessLimitsSchema);
  const { limits, mistakes: beyond } = narrowLimits(asked, caller.limits?.given);
  const scopes = wanted.scopes.length === 0 ? [Scope.PROXY] : wanted.scopes;
  const askedMs = wanted.lifetimeMs ?? Math.min(times.usualMs, times.longestMs);
  const lifetimeMs = wanted.shorten ? Math.min(askedMs, times.longestMs) : askedMs;
  const mistakes: Mistake[] = [
    ...mistakesInLimits(limits).map(under("limits")),
    ...beyond,
    ...mistakesInConnections(limits.connections, wanted.allowSeveral),
    ...mistakesInScopes(scopes, caller),
    ...(wanted.audience === undefined ? [] : mistakesInAudience(wanted.audience).map(under("audience"))),
  ];
  if (lifetimeMs > times.longestMs) {
    mistakes.push({ path: ["lifetime"], message: `must be at most ${times.longestMs / 1_000} seconds` });
  }
  if (mistakes.length > 0) {
    const text = mistakes.map(({ path, message }) => `${path.join(".")} ${message}`).join("; ");
    throw new Fault("invalid_body", `the access session is not valid: ${text}`, { mistakes });
  }
  return create(AccessSessionSchema, {
    id,
    environment: wanted.environment,
    limits,
    scopes: [...scopes],
    expiresAt: timestampFromMs(nowMs + lifetimeMs),
    budget: wanted.budget,
    createdBy: caller.keyId,
    keyMark: Buffer.from(keyMark, "hex"),
    createdAt: timestampFromMs(nowMs),
    label: wanted.label,
    ...(wanted.audience && { audience: wanted.audience }),
  });
}

const under =
  (field: string) =>
  ({ path, message }: Mistake): Mistake => ({ path: [field, ...path], message });

function mistakesInConnections(connections: readonly LimitedConnection[], allowsSeveral: boolean): Mistake[] {
  if (connections.length === 0) {
    return [{ path: ["limits", "connections"], message: "must name the connections of the session" }];
  }
  if (allowsSeveral) return [];
  const seen = new Set<string>();
  return connections.flatMap(({ integration, id }, i) => {
    const isSecond = seen.has(integration);
    seen.add(integration);
    if (!isSecond && id !== "") return [];
    const message = "must name one connection of each integration; send allow_several for more";
    return [{ path: ["limits", "connections", String(i)], message }];
  });
}

function mistakesInScopes(scopes: readonly Scope[], caller: Caller): Mistake[] {
  return scopes.flatMap((scope, i) => {
    const path = ["scopes", String(i)];
    if (!sessionScopes.includes(scope))
      return [{ path, message: "must be proxy, syncs, connections:read or connections:write" }];
    return mayDo(caller, scope)
      ? []
      : [{ path, message: `must be a scope of the key, which lacks ${scopeName(scope)}` }];
  });
}
