import type { NameValue } from "./scheme.ts";

const formType = "application/x-www-form-urlencoded";

/** Whether a body is a form through and through, whose parameters are signed (RFC 5849, section 3.4.1.3.1). */
export function isForm(headers: readonly NameValue[]): boolean {
  const values = (wanted: string) => headers.flatMap(([name, value]) => (name === wanted ? [value] : []));
  const types = values("content-type");
  // A charset beside the type does not change what the body is, and clients send one.
  const [type = ""] = types[0]?.split(";") ?? [];
  return types.length === 1 && type.trim().toLowerCase() === formType && values("content-encoding").length === 0;
}
