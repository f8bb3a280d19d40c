import type { Integration } from "../../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
import { placeholder, urlTemplate } from "../../../providers/url-template.ts";

/** A host of an integration, as far as it is known without a connection. */
export interface HostPattern {
  readonly scheme: "https" | "http";
  /** `host[:port]` in lower case; undefined: a part of it comes from each connection. */
  readonly host: string | undefined;
  /** Matches `host[:port]`. */
  readonly matches: (host: string) => boolean;
  /** The path that requests of this integration begin with; empty if any does. */
  readonly basePath: string;
  /** As people write it, with `*` for what comes from a connection. */
  readonly text: string;
}

/** Returns every host that connections of an integration may be bound to. */
export function hostPatterns(
  { hosts }: Pick<Integration, "hosts">,
  { proxy }: Pick<Provider, "proxy">,
): readonly HostPattern[] {
  const base = proxy === undefined || proxy.baseUrl === "" ? [] : patternOf(proxy.baseUrl, true);
  const others = [...(proxy?.hosts ?? []), ...hosts].flatMap(({ origin }) => patternOf(origin, false));
  return [...base, ...others];
}

function patternOf(url: string, isBase: boolean): HostPattern[] {
  const template = urlTemplate(url);
  if (template === undefined) return [];
  const scheme = template.scheme.toLowerCase() === "https://" ? "https" : "http";
  const defaultPort = scheme === "https" ? /:443$/ : /:80$/;
  const host = template.host.toLowerCase().replace(defaultPort, "");
  // Up to the first part that comes from a connection.
  const [fixed = ""] = template.path.split("${", 1);
  const basePath = isBase
    ? fixed.replace(/[^/]*$/, (rest) => (fixed === template.path ? rest : "")).replace(/\/+$/, "")
    : "";
  if (!template.host.includes("${")) {
    return [{ scheme, host, matches: (one) => one === host, basePath, text: host }];
  }
  const form = new RegExp(`^${template.host.split(placeholder).map(partOf).join("")}$`, "i");
  const text = template.host.replaceAll(placeholder, "*");
  return [{ scheme, host: undefined, matches: (one) => form.test(one), basePath, text }];
}

/** `split` by a pattern with two groups gives text, group, group, text, … */
const partOf = (part: string, i: number): string =>
  i % 3 === 0 ? part.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`) : i % 3 === 1 ? "[a-z0-9.-]+(?::[0-9]+)?" : "";
