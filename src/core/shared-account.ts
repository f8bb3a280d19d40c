import { hash } from "node:crypto";
import type { Connection } from "../gen/latchkey/v1/connection_pb.ts";
import type { RevocationRules } from "../gen/latchkey/v1/provider_pb.ts";
import { emailHash } from "./notifications/email-hash.ts";

const usualField = "connection_config.emailAddressHash";

/**
 * Returns the account whose one grant a connection shares with others of the OAuth client, as a hash. Undefined if the
 * provider knows a grant for each connection, or if the account is unknown.
 */
export function sharedAccount(
  { metadata, connectionConfig }: Pick<Connection, "metadata" | "connectionConfig">,
  rules: Pick<RevocationRules, "grant" | "accountField"> | undefined,
): string | undefined {
  if (rules?.grant !== "account") return undefined;
  const [, place, name = ""] = /^(metadata|connection_config)\.(.+)$/s.exec(rules.accountField || usualField) ?? [];
  const values = place === "metadata" ? metadata : connectionConfig;
  const value = values !== undefined && Object.hasOwn(values, name) ? values[name] : undefined;
  if (typeof value === "number") return hash("sha256", String(value));
  if (typeof value !== "string" || value === "") return undefined;
  // An address and its hash are the same account.
  if (/^[0-9a-f]{64}$/.test(value)) return value;
  return value.includes("@") ? emailHash(value) : hash("sha256", value);
}
