import { readInstant } from "../dialect/instant.ts";

/** Returns milliseconds since 1970 for a time in the sender's fixed unit; undefined if the text is not a time. */
export function instantOf(text: string, unit: string): number | undefined {
  // A date has a dash, a number has none: `readInstant` would guess the unit of a number.
  if (unit === "iso") return text.includes("-") ? readInstant(text) : undefined;
  if (!/^\d{1,15}$/.test(text)) return undefined;
  return unit === "ms" ? Number(text) : Number(text) * 1000;
}
