import type { Mistake } from "../base/fault.ts";
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
export function checkPlaceholders(text: string, path: string, allowed: readonly PlaceholderRoot[]): Mistake[] {
  const found = [...text.matchAll(/\$\{([^}]*)\}/g)].map(([, name = ""]) => name);
  if (text.split("${").length - 1 !== found.length) return [mistake(path, "has a ${ that is never closed")];
  return found.flatMap((name) => {
    const [root = "", ...rest] = name.split(".");
    const isWhole = single.includes(root) ? rest.length === 0 : rest.length > 0 && !rest.includes("");
    if (!isWhole || !allowed.some((one) => one === root)) return [mistake(path, `must not contain \${${name}}`)];
    // Whether there is such a setting is checked for the whole description.
    const isSecret = name === "integration.clientSecret" && !allowed.includes("clientSecret");
    return isSecret ? [mistake(path, "must not contain the client secret")] : [];
  });
}
