import { createPrivateKey, type KeyObject } from "node:crypto";
import { CannotAttach } from "../scheme.ts";

/** Text that was copied out of JSON has `\n` for its line breaks; a backslash is never part of PEM (RFC 7468). */
export const unescapePem = (text: string): string => text.replaceAll("\\n", "\n");

/** Reads a PEM key. `what` names it for an operator: "the integration's private key". */
export function readPrivateKey(pem: string, what: string): KeyObject {
  if (pem === "") throw new CannotAttach(`${what} is missing`);
  try {
    return createPrivateKey(unescapePem(pem));
  } catch {
    /* Not even as a cause: OpenSSL says what it read. */
    throw new CannotAttach(`${what} cannot be read: it must be PEM, and not encrypted`);
  }
}
