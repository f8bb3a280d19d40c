import { CannotAttach } from "./scheme.ts";

/**
 * RFC 9110, section 5.5: no CR, LF, NUL or other control character except the tab, and only characters that are bytes.
 */
const sendable = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Returns the value after checking that it cannot break out of its header line. */
export function requireHeaderValue(value: string, what: string): string {
  if (sendable.test(value)) return value;
  throw new CannotAttach(`${what} must not contain line breaks or other characters that are not allowed in a header`);
}
