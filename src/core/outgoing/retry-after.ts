/** RFC 9110, 5.6.7: the form that is sent, and the two that are still to be read. */
const dateForm =
  /^(?:[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT|[A-Z][a-z]{5,8}, \d\d-[A-Z][a-z]{2}-\d\d \d\d:\d\d:\d\d GMT|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})$/;

/** When a provider says to come again, in milliseconds from now; undefined when it does not say, or not so that it can be read. */
export function retryAfterMs(value: string | undefined, unit: string, nowMs: number): number | undefined {
  if (value === undefined || value === "") return undefined;
  const number = /^\d{1,15}(?:\.\d{1,9})?$/.test(value) ? Number(value) : undefined;
  if (number === undefined) {
    // A date without a zone is of GMT; what is no date, Date.parse may take for one all the same.
    const date = dateForm.test(value) ? Date.parse(value.endsWith("GMT") ? value : `${value} GMT`) : Number.NaN;
    return Number.isNaN(date) ? undefined : Math.max(0, date - nowMs);
  }
  if (unit === "unix_seconds") return Math.max(0, number * 1_000 - nowMs);
  if (unit === "unix_ms") return Math.max(0, number - nowMs);
  return number * 1_000;
}
