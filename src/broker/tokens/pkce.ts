import { hash } from "node:crypto";

/** RFC 7636, section 4.2: what the authorization request shows of a verifier. `plain` is spoken to nobody. */
export const challengeOf = (verifier: string): string => hash("sha256", verifier, "base64url");
