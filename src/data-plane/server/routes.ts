import type { IncomingHttpHeaders } from "node:http";
import type { JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import type { Caller } from "../../broker/setup/caller.ts";
import type { ReceivedNotification } from "../../core/notifications/notification.ts";
import type { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { QueryReader } from "./query.ts";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** One row of the door's table. */
export interface Route {
  readonly method: Method | "ANY";
  /** `:name` stands for one segment, `*` at the end for whatever follows; the first segment is a word. */
  readonly path: string;
  /** What the caller's key must be allowed to do; undefined: nobody is asked for a key. */
  readonly scope: Scope | undefined;
  /** Reached by browsers and providers, and so also at the public door. */
  readonly isPublic?: true;
  /**
   * How a browser may come here from other sites: as somebody who follows a link or sends a form of ours (`page`), or
   * by a script of a page on an allowed origin (`script`). Left out: not at all.
   */
  readonly browser?: "page" | "script";
  /** Its GET does something, once: a HEAD, as those send who look at links before people do, is not taken for it. */
  readonly isAct?: true;
  /** JSON, JSON or nothing, what a form sends (then each field is text), or whatever it is, as it came. */
  readonly takesBody?: true | "optional" | "form" | "raw";
  /** Throws for whom nothing more is to be read. Undefined: that was clear at once. */
  readonly admit?: (params: Readonly<Record<string, string>>) => Promise<void> | undefined;
  /** What a person sees in place of the envelope. */
  readonly faultPage?: FaultPage;
  answer(request: RouteRequest): Promise<RouteAnswer> | RouteAnswer;
}

/** Makes the page about a fault, for the request that met it. */
export type FaultPage = (fault: Fault, request: FaultedRequest) => RouteAnswer;

export interface FaultedRequest {
  readonly headers: IncomingHttpHeaders;
  readonly rawQuery: string;
}

export interface RouteRequest {
  /** Of a route without a scope, nobody. */
  readonly caller: Caller | undefined;
  readonly params: Readonly<Record<string, string>>;
  readonly query: QueryReader;
  /** The same, as it came. */
  readonly rawQuery: string;
  /** Path and query, as they came. */
  readonly target: string;
  /** Empty where the route takes none, or takes it as it came. */
  readonly body: JsonObject;
  /** Of a route that takes its body as it came. */
  readonly received: ReceivedNotification | undefined;
  readonly headers: IncomingHttpHeaders;
}

export interface RouteAnswer {
  readonly status: number;
  /** Undefined: none; a page as it stands; anything else goes as JSON. */
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Who asks, and in which environment: a control key has none, and cannot stand in for an environment's. */
export function callerIn({ caller }: RouteRequest): {
  readonly actor: string;
  readonly environment: string;
  readonly caller: Caller;
} {
  if (caller?.environment !== undefined) return { actor: caller.keyId, environment: caller.environment, caller };
  throw new Fault("missing_scope", "this key is a control key; send the key of an environment");
}

export interface Match {
  readonly route: Route;
  readonly params: Readonly<Record<string, string>>;
}

const maxKnown = 500;
const maxKnownLength = 200;

export interface Router {
  /** The row that a request is for; undefined where `match` throws. */
  find(method: string, path: string): Match | undefined;
  /** Throws `not_found`, or `method_not_allowed` with what is allowed. */
  match(method: string, path: string): Match;
  /** Throws `not_found`. */
  allowed(path: string): readonly string[];
  /** Whether a row takes every method there is, so that none of them is the door's to answer. */
  takesAny(path: string): boolean;
}

interface CompiledRoute {
  readonly route: Route;
  readonly segments: readonly string[];
}

/** `others` are the rows of a path that none of the table is for, as they are at that moment. */
export function createRouter(routes: readonly Route[], others: (path: string) => readonly Route[] = () => []): Router {
  const rows: readonly CompiledRoute[] = routes.map((route) => ({ route, segments: route.path.split("/").slice(1) }));
  // Each request looks more than once, and there are many rows.
  const byFirst = Map.groupBy(rows, ({ segments: [first = ""] }) => first);

  /** Of paths that were asked for lately: a provider asks for the same one again and again, and a door three times. */
  const known = new Map<string, readonly Match[]>();

  function at(path: string): readonly Match[] {
    const there = known.get(path);
    if (there !== undefined) return there;
    const found = lookedUp(path);
    if (found.length === 0) return others(path).map((route) => ({ route, params: {} }));
    if (known.size >= maxKnown) known.clear();
    if (path.length <= maxKnownLength) known.set(path, found);
    return found;
  }

  function lookedUp(path: string): Match[] {
    const segments = path.split("/").slice(1).map(decodeSegment);
    return (byFirst.get(segments[0] ?? "") ?? []).flatMap(({ route, segments: pattern }) => {
      const params = paramsOf(pattern, segments);
      return params === undefined ? [] : [{ route, params }];
    });
  }

  const methodsOf = (matches: readonly Match[]) => {
    const methods = new Set<string>(matches.map(({ route }) => route.method));
    return ofMethod(matches, "HEAD")?.route.method === "GET" ? [...methods, "HEAD"] : [...methods];
  };

  function ofMethod(matches: readonly Match[], method: string): Match | undefined {
    const isHead = method === "HEAD";
    const wanted = isHead ? "GET" : method;
    return matches.find(({ route }) => (route.method === wanted && !(isHead && route.isAct)) || route.method === "ANY");
  }

  return {
    find: (method, path) => ofMethod(at(path), method),
    match(method, path) {
      const matches = at(path);
      if (matches.length === 0) throw noSuchRoute();
      const match = ofMethod(matches, method);
      if (match !== undefined) return match;
      const allow = methodsOf(matches).join(", ");
      throw new Fault("method_not_allowed", `the method must be one of ${allow}`, { metadata: { allow } });
    },
    allowed(path) {
      const matches = at(path);
      if (matches.length === 0) throw noSuchRoute();
      return methodsOf(matches);
    },
    takesAny: (path) => at(path).some(({ route }) => route.method === "ANY"),
  };
}

/** Returns the lookup of routes with raw bodies; undefined: there are none. */
export function createWebhookLookup(routes: readonly Route[]) {
  const webhooks = routes.filter(({ takesBody }) => takesBody === "raw");
  const prefixes = webhooks.map(({ path }) => path.slice(0, path.indexOf(":")));
  if (webhooks.length === 0) return undefined;
  const router = createRouter(webhooks);
  return ({ method, url }: { readonly method: string; readonly url: string }): Match | undefined => {
    if (!prefixes.some((prefix) => url.startsWith(prefix))) return undefined;
    const [path = ""] = url.split("?", 1);
    return router.find(method, path);
  };
}

export const noSuchRoute = () => new Fault("not_found", "no such route");

/** The name of a row, as metrics have it. */
export const patternOf = ({ route }: Match): string => route.path;

function paramsOf(
  pattern: readonly string[],
  segments: readonly (string | undefined)[],
): Record<string, string> | undefined {
  const isOpen = pattern.at(-1) === "*";
  const fixed = isOpen ? pattern.slice(0, -1) : pattern;
  if (isOpen ? segments.length < pattern.length : segments.length !== fixed.length) return undefined;
  const params: Record<string, string> = {};
  for (const [i, part] of fixed.entries()) {
    const segment = segments[i];
    if (segment === undefined) return undefined;
    if (part.startsWith(":")) {
      // An empty segment, or one that would be resolved away, names nothing.
      if (segment === "" || segment === "." || segment === "..") return undefined;
      params[part.slice(1)] = segment;
    } else if (part !== segment) return undefined;
  }
  return params;
}

function decodeSegment(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    // Not percent-encoding: it can be the name of nothing.
    return undefined;
  }
}
