import type { IncomingHttpHeaders } from "node:http";
import type { JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import { createPerSecond, maxHintsPerSecond } from "../../base/per-second.ts";
import { hintOf } from "../../base/similar.ts";
import type { Caller } from "../../broker/setup/caller.ts";
import type { ReceivedNotification } from "../../core/notifications/notification.ts";
import type { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { QueryReader } from "./query.ts";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** A route of a listener. */
export interface Route {
  readonly method: Method | "ANY";
  /** `:name` matches one segment, `*` at the end any rest; the first segment is a word. */
  readonly path: string;
  /** Scope that the caller's key must have; undefined: the route needs no key. */
  readonly scope: Scope | undefined;
  /** Browsers and providers use the route, so the public listener has it too. */
  readonly isPublic?: true;
  /**
   * How a browser may use the route from other sites: by following a link or sending a form of ours (`page`), or by a
   * script of a page on an allowed origin (`script`). Absent: not at all.
   */
  readonly browser?: "page" | "script";
  /** GET changes something, once. HEAD, which link previews send, does not match the route. */
  readonly changesState?: true;
  /** `true`: JSON; `optional`: JSON or nothing; `form`: a form, each field as text; `raw`: any bytes, unread. */
  readonly takesBody?: true | "optional" | "form" | "raw";
  /** Finds callers of this route alone; undefined: the secret is none of theirs. Rejects for one that is refused. */
  readonly callerWith?: (secret: string) => Caller | Promise<Caller> | undefined;
  /** The route checks the limits of its caller. All others refuse limited keys and access sessions. */
  readonly takesLimited?: true;
  /** Throws if the body must not be read. Returns undefined if that needs no promise. */
  readonly admit?: (params: Readonly<Record<string, string>>) => Promise<void> | undefined;
  /** Makes the page about a fault, in place of JSON. */
  readonly faultPage?: FaultPage;
  answer(request: RouteRequest): Promise<RouteAnswer> | RouteAnswer;
}

/** Makes the page about a fault, for the request that met it. */
export type FaultPage = (fault: Fault, request: FaultedRequest) => RouteAnswer;

export interface FaultedRequest {
  readonly headers: IncomingHttpHeaders;
  readonly rawQuery: string;
}

/** What a route says of fields that it does not know. SDKs send fields of their own, so they are no mistakes. */
export interface FieldReport {
  /** Under `dev`: an unknown field that is close to a known one is a mistake. */
  readonly refusesMisspelled: boolean;
  /** Names unknown fields, by their dotted paths, in a header of the response. */
  ignore(names: readonly string[]): void;
}

export interface RouteRequest {
  /** Undefined for a route without a scope. */
  readonly caller: Caller | undefined;
  readonly method: string;
  readonly params: Readonly<Record<string, string>>;
  readonly query: QueryReader;
  /** The query as text. */
  readonly rawQuery: string;
  /** Path and query as text. */
  readonly target: string;
  readonly fields: FieldReport;
  /** Empty if the route takes no body, or a raw one. */
  readonly body: JsonObject;
  /** Set for a route that takes a raw body. */
  readonly received: ReceivedNotification | undefined;
  readonly headers: IncomingHttpHeaders;
  /** Returns a signal that is aborted once the client has left. Absent for webhooks, which are processed anyway. */
  readonly leaving?: () => AbortSignal;
}

export interface RouteAnswer {
  readonly status: number;
  /** Undefined: no body; bytes, which many responses share, or text with a content type: as they are; else JSON. */
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** Writes the body piece by piece, in place of `body`. Never rejects. The response ends when it resolves. */
  readonly stream?: (to: AnswerStream) => Promise<void>;
  /** The stream lasts as long as the client: a process that stops cuts it. */
  readonly isEndless?: true;
}

/** The body of a response that is written piece by piece. */
export interface AnswerStream {
  /** Does nothing once the client has left. */
  write(text: string): void;
  /** Whether the client reads more slowly than pieces come. */
  isFull(): boolean;
  /** From now on, a process that stops cuts the stream, as with `isEndless`. */
  cutAtStop(): void;
}

/** Returns the caller and its environment. Throws for a control key, which has no environment. */
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
  /** Returns the route of a request; undefined where `match` throws. */
  find(method: string, path: string): Match | undefined;
  /** Throws `not_found`, or `method_not_allowed` with what is allowed. */
  match(method: string, path: string): Match;
  /** Throws `not_found`. */
  allowed(path: string): readonly string[];
  /** Returns whether a route takes every method, so that the listener itself answers none. */
  takesAny(path: string): boolean;
}

interface CompiledRoute {
  readonly route: Route;
  readonly segments: readonly string[];
}

/** `others` returns the current routes of a path that no route of the table matches. */
export function createRouter(routes: readonly Route[], others: (path: string) => readonly Route[] = () => []): Router {
  const compiled: readonly CompiledRoute[] = routes.map((route) => ({
    route,
    segments: route.path.split("/").slice(1),
  }));
  // Each request is looked up more than once, and there are many routes.
  const byFirst = Map.groupBy(compiled, ({ segments: [first = ""] }) => first);

  // Scanners ask for many paths: comparing each with all routes would cost more than the answer.
  const mayLook = createPerSecond(maxHintsPerSecond);

  /** Matches of recent paths: providers repeat a path, and the listener looks each up three times. */
  const known = new Map<string, readonly Match[]>();

  function at(path: string): readonly Match[] {
    const cached = known.get(path);
    if (cached !== undefined) return cached;
    const found = lookUp(path);
    if (found.length === 0) return others(path).map((route) => ({ route, params: {} }));
    if (known.size >= maxKnown) known.clear();
    if (path.length <= maxKnownLength) known.set(path, found);
    return found;
  }

  function lookUp(path: string): Match[] {
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
    return matches.find(
      ({ route }) => (route.method === wanted && !(isHead && route.changesState)) || route.method === "ANY",
    );
  }

  return {
    find: (method, path) => ofMethod(at(path), method),
    match(method, path) {
      const matches = at(path);
      if (matches.length === 0) throw noSuchRoute(mayLook() ? nearestPath(path, compiled) : undefined);
      const match = ofMethod(matches, method);
      if (match !== undefined) return match;
      const allow = methodsOf(matches).join(", ");
      throw new Fault("method_not_allowed", `the method must be one of ${allow}`, { metadata: { allow } });
    },
    allowed(path) {
      const matches = at(path);
      if (matches.length === 0) throw noSuchRoute(mayLook() ? nearestPath(path, compiled) : undefined);
      return methodsOf(matches);
    },
    takesAny: (path) => at(path).some(({ route }) => route.method === "ANY"),
  };
}

/** Returns the lookup of routes with raw bodies; undefined: there are none. */
export function createWebhookLookup(routes: readonly Route[]) {
  const webhooks = routes.filter(({ method, takesBody }) => method === "POST" && takesBody === "raw");
  const prefixes = webhooks.map(({ path }) => path.slice(0, path.indexOf(":")));
  if (webhooks.length === 0) return undefined;
  const router = createRouter(webhooks);
  return ({ method, url }: { readonly method: string; readonly url: string }): Match | undefined => {
    if (!prefixes.some((prefix) => url.startsWith(prefix))) return undefined;
    const [path = ""] = url.split("?", 1);
    return router.find(method, path);
  };
}

export const noSuchRoute = (hint?: string) => new Fault("not_found", "no such route", { hint });

/** Returns the hint with the path that was probably meant: the parameters are taken over. */
function nearestPath(path: string, routes: readonly CompiledRoute[]): string | undefined {
  if (path.length > maxKnownLength) return undefined;
  const segments = path.split("/").slice(1);
  const paths = routes.flatMap(({ segments: pattern }) =>
    pattern.length === segments.length && !pattern.includes("*") && pattern[0] !== ""
      ? [`/${pattern.map((part, i) => (part.startsWith(":") ? segments[i] : part)).join("/")}`]
      : [],
  );
  return hintOf(path, paths);
}

/** Returns the name of a route in metrics. */
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
      // An empty segment, and one that URL parsers resolve away, is no name.
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
    // Malformed percent-encoding names nothing.
    return undefined;
  }
}
