import { lowerCase } from "../../base/http/field-name.ts";

/** More hops than this nobody means (RFC 9110, 7.6.2: a recipient has a maximum of its own). */
const maximum = 1_000_000;
/** The second is the first in disguise, and becomes it on the way out. */
const names = new Set(["max-forwards", "nango-proxy-max-forwards"]);

/**
 * The fields of an OPTIONS as they go on, with one hop less; `none` where it is to go no further, `wrong` where what
 * it says is no number, or said more than once.
 */
export function countedForward(rawHeaders: readonly string[]): readonly string[] | "none" | "wrong" {
  let fields: string[] | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (!names.has(lowerCase(rawHeaders[i] ?? ""))) continue;
    const value = rawHeaders[i + 1] ?? "";
    if (fields !== undefined || !/^\d+$/.test(value)) return "wrong";
    if (Number(value) === 0) return "none";
    fields = [...rawHeaders];
    fields[i + 1] = String(Math.min(Number(value) - 1, maximum));
  }
  return fields ?? rawHeaders;
}
