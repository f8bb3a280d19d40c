import type { Mistake } from "../../base/fault.ts";
import type { AccessLimits } from "../../gen/latchkey/v1/access_pb.ts";
import { mistakeInPathPattern } from "./path-pattern.ts";
import { mistakeInToolPattern } from "./tool-pattern.ts";

/** Values of limits, from any source. */
export type LimitValues = Omit<AccessLimits, "$typeName" | "$unknown" | "connections"> & {
  readonly connections: readonly { readonly integration: string; readonly id: string }[];
};

/** The largest number of entries in each field. */
const maxEntries = 100;

/** Returns all mistakes in limits, with their places. */
export function mistakesInLimits({ connections, methods, paths, hosts, tools }: LimitValues): Mistake[] {
  const found: Mistake[] = [];
  const refuse = (path: readonly string[], message: string) => void found.push({ path, message });
  for (const [name, list] of Object.entries({ connections, methods, paths, hosts, tools })) {
    if (list.length > maxEntries) refuse([name], `must have at most ${maxEntries} entries`);
  }
  for (const [i, { integration, id }] of connections.entries()) {
    if (integration === "") refuse(["connections", String(i), "integration"], "must be the key of an integration");
    if (integration.length > 255) refuse(["connections", String(i), "integration"], "must have at most 255 characters");
    if (id.length > 255) refuse(["connections", String(i), "id"], "must have at most 255 characters");
  }
  for (const [i, method] of methods.entries()) {
    if (!/^[A-Z][A-Z-]{0,30}$/.test(method))
      refuse(["methods", String(i)], "must be a method in capitals, such as GET");
  }
  for (const [i, pattern] of paths.entries()) {
    const mistake = mistakeInPathPattern(pattern);
    if (mistake !== undefined) refuse(["paths", String(i)], mistake);
  }
  for (const [i, host] of hosts.entries()) {
    if (!isHostPattern(host)) {
      refuse(["hosts", String(i)], "must be a host in lower case such as api.example.com, or *.example.com");
    }
  }
  for (const [i, pattern] of tools.entries()) {
    const mistake = mistakeInToolPattern(pattern);
    if (mistake !== undefined) refuse(["tools", String(i)], mistake);
  }
  return found;
}

/** Accepts only what `URL` writes back unchanged, so that a pattern can match. */
function isHostPattern(pattern: string): boolean {
  const host = pattern.startsWith("*.") ? pattern.slice(2) : pattern;
  if (host === "" || host.length > 255 || host.includes("*") || host.endsWith(".")) return false;
  // The default port is of the other scheme here, so each port is written back.
  const url = URL.parse(`http${host.endsWith(":80") ? "s" : ""}://${host}/`);
  return url !== null && url.host === host && url.username === "";
}
