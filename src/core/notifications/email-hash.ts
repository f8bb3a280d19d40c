import { hash } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";

/** The value of `connection_config.emailAddressHash`; imported connections hold the same value. */
export const emailHash = (email: string): string =>
  hash("sha256", `nango.emailAddressHash.v1:${email.toLowerCase().trim()}`);

/**
 * The provider account of a connection, by its own data. Must be a SHA-256 in hex: imports may contain anything, and
 * keys have a limited form.
 */
export function accountOf(connectionConfig: JsonObject | undefined): string | undefined {
  const account = connectionConfig?.["emailAddressHash"];
  return typeof account === "string" && /^[0-9a-f]{64}$/.test(account) ? account : undefined;
}

/** Reports whether a known account was replaced by a different one. False if either account is unknown. */
export function isOtherAccount(before: JsonObject | undefined, after: JsonObject | undefined): boolean {
  const [was, is] = [accountOf(before), accountOf(after)];
  return was !== undefined && is !== undefined && was !== is;
}
