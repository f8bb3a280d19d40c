import { hash } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";

/** What `connection_config.emailAddressHash` holds. Connections that were imported from elsewhere hold the same. */
export const emailHash = (email: string): string =>
  hash("sha256", `nango.emailAddressHash.v1:${email.toLowerCase().trim()}`);

/** The account at the provider that a connection says it is of. Imports may say anything, and a key has its bounds. */
export function accountOf(connectionConfig: JsonObject | undefined): string | undefined {
  const account = connectionConfig?.["emailAddressHash"];
  return typeof account === "string" && /^[0-9a-f]{64}$/.test(account) ? account : undefined;
}

/** One was known and another has come. Where either is not known, nothing is. */
export function isOtherAccount(before: JsonObject | undefined, after: JsonObject | undefined): boolean {
  const [was, is] = [accountOf(before), accountOf(after)];
  return was !== undefined && is !== undefined && was !== is;
}
