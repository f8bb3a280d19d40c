import type { AccessLimits } from "../../gen/latchkey/v1/access_pb.ts";
import { isAmbiguousPath, pathExpressionOf } from "./path-pattern.ts";
import { otherMethodsOf } from "./requested-methods.ts";
import { toolCheckOf } from "./tool-pattern.ts";

/** A request to a provider, as it will be sent. */
export interface LimitedRequest {
  readonly method: string;
  /** `api.example.com`, with its port unless that is the default of the scheme. */
  readonly host: string;
  /** Path at the provider in two parts, because most callers have no base path. The second may have a query. */
  readonly basePath: string;
  readonly path: string;
  /** Name, value, name, value. */
  readonly rawHeaders: readonly string[];
}

/** The part of a request that is outside the limits. */
export type LimitRefusal = "method" | "host" | "path";

/** Limits of a caller, compiled. */
export interface CallerLimits {
  /** The limits as they were given. */
  readonly given: AccessLimits;
  /** Integrations of the connections; undefined: no connection is named, and all may be used. */
  readonly integrations: ReadonlySet<string> | undefined;
  /** Methods, hosts or paths are limited. */
  readonly limitsRequests: boolean;
  /** Tools are limited. */
  readonly limitsTools: boolean;
  admitsConnection(ref: { readonly integration: string; readonly id: string }): boolean;
  /** `api.example.com`, with its port unless that is the default of the scheme. */
  admitsHost(host: string): boolean;
  /** Returns which part of the request is outside the limits; undefined: none. */
  refusalOf(request: LimitedRequest): LimitRefusal | undefined;
  /** Whether a tool may be called, of any MCP server, and shown in its list. */
  admitsTool(tool: string): boolean;
}

/** Compiles limits. Returns undefined if they limit nothing. */
export function compileLimits(given: AccessLimits | undefined): CallerLimits | undefined {
  if (given === undefined || isUnlimited(given)) return undefined;
  const { connections, methods, paths, hosts, tools } = given;
  const ids = connections.length === 0 ? undefined : idsByIntegration(given);
  const allowedMethods = methods.length === 0 ? undefined : new Set(methods);
  const allowsHost = hosts.length === 0 ? undefined : hostCheckOf(hosts);
  const pathExpression = paths.length === 0 ? undefined : pathExpressionOf(paths);
  const allowsTool = tools.length === 0 ? undefined : toolCheckOf(tools);

  return {
    given,
    integrations: ids && new Set(ids.keys()),
    limitsRequests: methods.length + hosts.length + paths.length > 0,
    limitsTools: allowsTool !== undefined,
    admitsConnection({ integration, id }) {
      if (ids === undefined) return true;
      const named = ids.get(integration);
      return named !== undefined && (named === "all" || named.has(id));
    },
    admitsHost: (host) => allowsHost === undefined || allowsHost(host),
    refusalOf({ method, host, basePath, path, rawHeaders }) {
      if (allowedMethods !== undefined && !admitsMethods(allowedMethods, { method, path, rawHeaders })) return "method";
      if (allowsHost !== undefined && !allowsHost(host)) return "host";
      if (pathExpression === undefined) return undefined;
      const at = path.indexOf("?");
      const whole = basePath + (at === -1 ? path : path.slice(0, at));
      return isAmbiguousPath(whole) || !pathExpression.test(whole) ? "path" : undefined;
    },
    admitsTool: (tool) => allowsTool === undefined || allowsTool(tool),
  };
}

export const isUnlimited = ({ connections, methods, paths, hosts, tools }: AccessLimits): boolean =>
  connections.length + methods.length + paths.length + hosts.length + tools.length === 0;

function idsByIntegration({ connections }: AccessLimits): ReadonlyMap<string, ReadonlySet<string> | "all"> {
  const found = new Map<string, Set<string> | "all">();
  for (const { integration, id } of connections) {
    const known = found.get(integration);
    if (known === "all") continue;
    if (id === "") found.set(integration, "all");
    else if (known === undefined) found.set(integration, new Set([id]));
    else known.add(id);
  }
  return found;
}

function hostCheckOf(hosts: readonly string[]): (host: string) => boolean {
  const exact = new Set(hosts);
  const endings = hosts.flatMap((host) => (host.startsWith("*.") ? [host.slice(1)] : []));
  return (host) => exact.has(host) || endings.some((ending) => host.length > ending.length && host.endsWith(ending));
}

/** Returns whether the method, and each method that the server may take instead, is allowed. */
const admitsMethods = (
  allowed: ReadonlySet<string>,
  request: Pick<LimitedRequest, "method" | "path" | "rawHeaders">,
): boolean => allowed.has(request.method) && otherMethodsOf(request).every((method) => allowed.has(method));
