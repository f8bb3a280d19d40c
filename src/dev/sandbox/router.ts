import type { Call, SandboxAnswer } from "./call.ts";
import type { EndpointName } from "./endpoints.ts";

export interface SandboxRoute {
  readonly method: string;
  /** Segments; `:name` stands for any one, a `*` at the end for whatever follows. */
  readonly path: string;
  /** Under which name it is counted, and told how to behave. */
  readonly endpoint: EndpointName;
  /** Of the body, in bytes; a mebibyte unless said. */
  readonly bodyLimit?: number;
  readonly answer: (call: Call) => SandboxAnswer | Promise<SandboxAnswer>;
}

export type RouteMatch =
  | { readonly kind: "route"; readonly route: SandboxRoute; readonly params: Readonly<Record<string, string>> }
  | { readonly kind: "method"; readonly allow: readonly string[] }
  | { readonly kind: "nothing" };

/** Finds the first route of the table that fits. HEAD is answered as GET. */
export function createRouter(routes: readonly SandboxRoute[]): (method: string, path: string) => RouteMatch {
  const table = routes.map((route) => ({ route, pattern: route.path.split("/") }));
  return (method, path) => {
    const segments = path.split("/");
    const fitting = table.flatMap(({ route, pattern }) => {
      const params = match(pattern, segments);
      return params === undefined ? [] : [{ route, params }];
    });
    const wanted = method === "HEAD" ? "GET" : method;
    const chosen = fitting.find(({ route }) => route.method === wanted);
    if (chosen !== undefined) return { kind: "route", ...chosen };
    if (fitting.length === 0) return { kind: "nothing" };
    return { kind: "method", allow: [...new Set(fitting.map(({ route }) => route.method))] };
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
    /* A segment that does not decode names nothing. */
    return undefined;
  }
}
