import { hash } from "node:crypto";

/** Returns the challenge of a verifier for the authorization request (RFC 7636, section 4.2). `plain` is never used. */
export const challengeOf = (verifier: string): string => hash("sha256", verifier, "base64url");
