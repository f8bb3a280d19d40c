import { createPrivateKey, type KeyObject } from "node:crypto";
import { CannotAttach } from "../scheme.ts";

/** Replaces `\n`, found in text copied from JSON, by line breaks; PEM never contains a backslash (RFC 7468). */
export const unescapePem = (text: string): string => text.replaceAll("\\n", "\n");

/** Reads a PEM key. `what` names it for an operator: "the integration's private key". */
export function readPrivateKey(pem: string, what: string): KeyObject {
  if (pem === "") throw new CannotAttach(`${what} is missing`);
  try {
    return createPrivateKey(unescapePem(pem));
  } catch {
    /* No cause either: OpenSSL's message may quote the input. */
    throw new CannotAttach(`${what} must be unencrypted PEM`);
  }
}
