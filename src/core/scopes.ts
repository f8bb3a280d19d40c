import { Scope, ScopeSchema } from "../gen/latchkey/v1/access_pb.ts";

/** `connections:read` for SCOPE_CONNECTIONS_READ: how a scope is written in configuration and messages. */
export const scopeName = (scope: Scope): string =>
  (ScopeSchema.value[scope]?.localName ?? "unknown").toLowerCase().replace("_", ":");

export const scopesByName: ReadonlyMap<string, Scope> = new Map(
  ScopeSchema.values.flatMap(({ number }) =>
    number === Scope.UNSPECIFIED ? [] : [[scopeName(number as Scope), number as Scope]],
  ),
);

/** What a key may do that was given no scopes: everything within its environment. */
export const defaultScopes: readonly Scope[] = [...scopesByName.values()].filter((scope) => scope !== Scope.ADMIN);
