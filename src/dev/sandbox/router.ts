import type { Call, SandboxAnswer } from "./call.ts";
import type { SandboxEndpoint } from "./endpoints.ts";

export interface SandboxRoute {
  readonly method: string;
  /** Segments; `:name` matches any one, a `*` at the end the rest. */
  readonly path: string;
  /** The name under which it is counted, and its behavior configured. */
  readonly endpoint: SandboxEndpoint;
  /** Largest body in bytes; default: one mebibyte. */
  readonly bodyLimit?: number;
  readonly answer: (call: Call) => SandboxAnswer | Promise<SandboxAnswer>;
}

export type RouteMatch =
  | { readonly kind: "route"; readonly route: SandboxRoute; readonly params: Readonly<Record<string, string>> }
  | { readonly kind: "wrong-method"; readonly allow: readonly string[] }
  | { readonly kind: "unknown" };

/** Finds the first route of the table that matches. HEAD is answered as GET. */
export function createRouter(routes: readonly SandboxRoute[]): (method: string, path: string) => RouteMatch {
  const table = routes.map((route) => ({ route, pattern: route.path.split("/") }));
  return (method, path) => {
    const segments = path.split("/");
    const matching = table.flatMap(({ route, pattern }) => {
      const params = match(pattern, segments);
      return params === undefined ? [] : [{ route, params }];
    });
    const wanted = method === "HEAD" ? "GET" : method;
    const chosen = matching.find(({ route }) => route.method === wanted);
    if (chosen !== undefined) return { kind: "route", ...chosen };
    if (matching.length === 0) return { kind: "unknown" };
    return { kind: "wrong-method", allow: [...new Set(matching.map(({ route }) => route.method))] };
  };
}

function match(pattern: readonly string[], segments: readonly string[]): Record<string, string> | undefined {
  const isOpen = pattern.at(-1) === "*";
  if (isOpen ? segments.length < pattern.length - 1 : segments.length !== pattern.length) return undefined;
  const params: Record<string, string> = {};
  for (const [i, expected] of (isOpen ? pattern.slice(0, -1) : pattern).entries()) {
    const segment = segments[i] ?? "";
    if (!expected.startsWith(":")) {
      if (segment !== expected) return undefined;
      continue;
    }
    const value = decoded(segment);
    if (value === undefined || value === "") return undefined;
    params[expected.slice(1)] = value;
  }
  return params;
}

function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    /* A malformed segment matches no route. */
    return undefined;
  }
}
