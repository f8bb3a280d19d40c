import type { NameValue } from "./scheme.ts";

const formType = "application/x-www-form-urlencoded";

/** Reports whether the body is a plain form, whose parameters are signed (RFC 5849, section 3.4.1.3.1). */
export function isForm(headers: readonly NameValue[]): boolean {
  const values = (wanted: string) => headers.flatMap(([name, value]) => (name === wanted ? [value] : []));
  const types = values("content-type");
  // A charset parameter does not change the type, and some clients send one.
  const [type = ""] = types[0]?.split(";") ?? [];
  return types.length === 1 && type.trim().toLowerCase() === formType && values("content-encoding").length === 0;
}
