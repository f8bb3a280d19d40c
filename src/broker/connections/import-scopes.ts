import type { Credentials } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import { valueAt } from "../../providers/dotted-path.ts";
import { scopesIn } from "../tokens/token-answer.ts";

/** The scopes granted to imported credentials, from the provider's own response in `raw`. */
export function scopesOfImport({ kind }: Credentials, { auth }: Provider): readonly string[] {
  if (kind.case !== "oauth2" && kind.case !== "oauth2Client") return [];
  const { raw } = kind.value;
  if (raw === undefined) return [];
  const path = auth.case === "oauth2" ? (auth.value.tokenAnswer?.scope ?? "") : "";
  const separator = auth.case === "oauth2" ? auth.value.scopeSeparator : "";
  const value = valueAt(path === "" ? "scope" : path, raw) ?? valueAt("scope", raw);
  const found = scopesIn(value) ?? [];
  // Whitespace and commas separate scopes everywhere; a provider may have another separator in addition.
  if (/^[\s,]*$/.test(separator)) return found;
  return [...new Set(found.flatMap((scope) => scope.split(separator)).filter((scope) => scope !== ""))];
}
