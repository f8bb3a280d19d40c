import { hash } from "node:crypto";

/** What `connection_config.emailAddressHash` holds. Connections that were imported from elsewhere hold the same. */
export const emailHash = (email: string): string =>
  hash("sha256", `nango.emailAddressHash.v1:${email.toLowerCase().trim()}`);
