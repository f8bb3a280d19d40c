import type { Config } from "../config/config.ts";
import type { Listeners } from "./listeners.ts";

/**
 * Returns the base of the links in errors: the configured one, the public URL, or the address of the listener that
 * serves the page. Empty if that address is a wildcard or a Unix socket: then errors name the path alone. Never taken
 * from a Host header, which the caller chooses.
 */
export function faultDocsBase(
  { docsUrl, publicUrl }: Pick<Config, "docsUrl" | "publicUrl">,
  { addresses }: Pick<Listeners, "addresses">,
): string {
  const own = addresses.public ?? addresses.data ?? "";
  const isReachable = /^https?:\/\//.test(own) && !/^https?:\/\/(?:0\.0\.0\.0|\[::\])(?::|$)/.test(own);
  return docsUrl ?? publicUrl ?? (isReachable ? own : "");
}
