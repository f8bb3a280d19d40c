import { lowerCase } from "../../base/http/field-name.ts";

/** Cap on the hop count; no real request needs more (RFC 9110, 7.6.2: a recipient may set its own maximum). */
const maximum = 1_000_000;
/** The second name is the disguised form of the first, and becomes the first when forwarded. */
const names = new Set(["max-forwards", "nango-proxy-max-forwards"]);

/**
 * Returns the fields of an OPTIONS request with the hop count reduced by one. Returns `none` if the request must not be
 * forwarded, and `wrong` if the count is not a number or is repeated.
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
