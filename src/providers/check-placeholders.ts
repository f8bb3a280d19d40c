import type { Mistake } from "../base/fault.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";
import { mistake } from "./mistake.ts";

/** What the texts of a token request may contain: `${token}`, `${credentials.key}`, `${integration.developerToken}`. */
export type PlaceholderRoot =
  | "token"
  | "jwt"
  | "iat"
  | "exp"
  | "credentials"
  | "connectionConfig"
  | "integration"
  /** Allows `${integration.clientSecret}` as well. */
  | "clientSecret";

const single: readonly string[] = ["token", "jwt", "iat", "exp"];

/** Checks that a text contains only placeholders that have a value there. */
export function checkPlaceholders(
  text: string,
  path: string,
  { integrationSettings }: Pick<Provider, "integrationSettings">,
  allowed: readonly PlaceholderRoot[],
): Mistake[] {
  const found = [...text.matchAll(/\$\{([^}]*)\}/g)].map(([, name = ""]) => name);
  if (text.split("${").length - 1 !== found.length) return [mistake(path, "has a ${ that is never closed")];
  const settings = new Set(["clientId", "scopes", ...integrationSettings.map(({ name }) => name)]);
  return found.flatMap((name) => {
    const [root = "", ...rest] = name.split(".");
    const isWhole = single.includes(root) ? rest.length === 0 : rest.length > 0 && !rest.includes("");
    if (!isWhole || !allowed.some((one) => one === root)) return [mistake(path, `must not contain \${${name}}`)];
    if (root !== "integration" || settings.has(rest.join("."))) return [];
    if (name === "integration.clientSecret" && allowed.includes("clientSecret")) return [];
    return [mistake(path, `uses ${name}, which is no integration setting`)];
  });
}
