import { readInstant } from "../dialect/instant.ts";

/** Milliseconds since 1970, of a time written as its sender always writes it; undefined when it is none. */
export function instantOf(text: string, unit: string): number | undefined {
  // A date has a dash, a number none: `readInstant` would guess at the unit of one.
  if (unit === "iso") return text.includes("-") ? readInstant(text) : undefined;
  if (!/^\d{1,15}$/.test(text)) return undefined;
  return unit === "ms" ? Number(text) : Number(text) * 1000;
}
