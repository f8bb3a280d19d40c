import type { Config } from "../config/config.ts";
import type { Listeners } from "./listeners.ts";

/**
 * Returns the base of the links in errors: the configured one, the public URL, or the listener's address on this
 * machine. Empty for other addresses, which strangers behind a reverse proxy should not learn: then errors name the
 * path alone. Never taken from a Host header, which the caller chooses.
 */
export function faultDocsBase(
  { docsUrl, publicUrl }: Pick<Config, "docsUrl" | "publicUrl">,
  { addresses }: Pick<Listeners, "addresses">,
): string {
  const own = addresses.public ?? addresses.data ?? "";
  const isLocal = /^https?:\/\/(?:127\.0\.0\.1|localhost|\[::1\])(?::|$)/.test(own);
  return docsUrl ?? publicUrl ?? (isLocal ? own : "");
}
