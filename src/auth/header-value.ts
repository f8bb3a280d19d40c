import { CannotAttach } from "./scheme.ts";

/** RFC 9110, section 5.5: no CR, LF, NUL or other control character but the tab, and nothing that is no byte. */
const sendable = /^[\t\x20-\x7e\x80-\xff]*$/;

/** The value itself, once it is known to stay within its line. */
export function requireHeaderValue(value: string, what: string): string {
  if (sendable.test(value)) return value;
  throw new CannotAttach(`${what} has a line break or another character that a header cannot carry`);
}
