import { Scope, ScopeSchema } from "../gen/latchkey/v1/access_pb.ts";

/** Returns the name of a scope in configuration and messages: `connections:read` for SCOPE_CONNECTIONS_READ. */
export const scopeName = (scope: Scope): string =>
  (ScopeSchema.value[scope]?.localName ?? "unknown").toLowerCase().replace("_", ":");

export const scopesByName: ReadonlyMap<string, Scope> = new Map(
  ScopeSchema.values.flatMap(({ number }) =>
    number === Scope.UNSPECIFIED ? [] : [[scopeName(number as Scope), number as Scope]],
  ),
);

/** Scopes of a key that was given none: everything within its environment. */
export const defaultScopes: readonly Scope[] = [...scopesByName.values()].filter(
  (scope) => scope !== Scope.ADMIN && scope !== Scope.EDGE && scope !== Scope.APPROVALS_DECIDE,
);

/** Scopes that a key with limits may have. */
export const limitableScopes: ReadonlySet<Scope> = new Set([
  Scope.PROXY,
  Scope.CONNECTIONS_READ,
  Scope.CONNECTIONS_WRITE,
  Scope.SYNCS,
]);

/** Scopes of a limited key that was given none. */
export const defaultLimitedScopes: readonly Scope[] = [Scope.PROXY, Scope.CONNECTIONS_READ, Scope.SYNCS];
