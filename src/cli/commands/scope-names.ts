import { InvalidArgumentError } from "commander";
import { Scope, ScopeSchema } from "../../gen/latchkey/v1/access_pb.ts";

/** Maps names such as `connections:read` to scopes such as `SCOPE_CONNECTIONS_READ`. */
const names = new Map(
  ScopeSchema.values
    .filter(({ number }) => number !== Scope.UNSPECIFIED)
    .map(({ name, number }) => [
      name
        .replace(/^SCOPE_/, "")
        .toLowerCase()
        .replace("_", ":"),
      number as Scope,
    ]),
);

export const scopeName = (scope: Scope): string =>
  [...names].find(([, known]) => known === scope)?.[0] ?? `scope ${scope}`;

/** Collects scopes, also several separated by commas; `integrations:*` means all with that prefix. */
export function scopes(text: string, before: readonly Scope[] = []): readonly Scope[] {
  const found = text.split(",").flatMap((name) => {
    const matching = [...names].filter(
      ([known]) => known === name || (name.endsWith(":*") && known.startsWith(name.slice(0, -1))),
    );
    if (matching.length === 0) throw new InvalidArgumentError(`The scopes are ${[...names.keys()].join(", ")}.`);
    return matching.map(([, scope]) => scope);
  });
  return [...new Set([...before, ...found])];
}
