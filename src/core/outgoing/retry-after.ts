/** RFC 9110, 5.6.7: the current date form, and the two obsolete ones that must still be read. */
const dateForm =
  /^(?:[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT|[A-Z][a-z]{5,8}, \d\d-[A-Z][a-z]{2}-\d\d \d\d:\d\d:\d\d GMT|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})$/;

/** Returns the provider's requested delay in milliseconds from now; undefined if the value is absent or unreadable. */
export function retryAfterMs(value: string | undefined, unit: string, nowMs: number): number | undefined {
  if (value === undefined || value === "") return undefined;
  const number = /^\d{1,15}(?:\.\d{1,9})?$/.test(value) ? Number(value) : undefined;
  if (number === undefined) {
    // A date without a zone is in GMT. The form is checked first, because Date.parse accepts text that is not a date.
    const date = dateForm.test(value) ? Date.parse(value.endsWith("GMT") ? value : `${value} GMT`) : Number.NaN;
    return Number.isNaN(date) ? undefined : Math.max(0, date - nowMs);
  }
  if (unit === "unix_seconds") return Math.max(0, number * 1_000 - nowMs);
  if (unit === "unix_ms") return Math.max(0, number - nowMs);
  return number * 1_000;
}
