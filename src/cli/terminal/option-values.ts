import { InvalidArgumentError } from "commander";
import { readInstant } from "../../core/dialect/instant.ts";

/** Parsers of option values. Each throws an error that commander converts to a usage error naming the option. */

const units = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** Parses `500ms`, `30s`, `5m`, `12h`, `30d` to milliseconds. */
export function durationMs(text: string): number {
  const [, amount, unit] = /^(\d{1,9})(ms|s|m|h|d)$/.exec(text) ?? [];
  if (amount === undefined || !isUnit(unit))
    throw new InvalidArgumentError("It must be a duration such as 30s, 5m, 12h or 30d.");
  return Number(amount) * units[unit];
}

const isUnit = (text: string | undefined): text is keyof typeof units =>
  text !== undefined && Object.hasOwn(units, text);

export function instant(text: string): number {
  const ms = readInstant(text);
  if (ms === undefined) throw new InvalidArgumentError("It must be a time such as 2030-01-01T00:00:00Z.");
  return ms;
}

/** Parses a past time, as an age or a time; returns milliseconds since 1970. */
export function past(text: string): number {
  if (/^\d+[a-z]+$/.test(text)) return Math.max(0, Date.now() - durationMs(text));
  // A number alone is more likely a duration without its unit than seconds since 1970.
  const ms = /^\d+$/.test(text) ? undefined : readInstant(text);
  if (ms === undefined)
    throw new InvalidArgumentError("It must be an age such as 2h, or a time such as 2030-01-01T00:00:00Z.");
  return ms;
}

export function count(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError("It must be a whole number of at least 1.");
  return Number(text);
}

/** Parses a store revision, which may exceed the exact range of a number. */
export function revision(text: string): bigint {
  if (!/^\d{1,19}$/.test(text)) throw new InvalidArgumentError("It must be a whole number.");
  return BigInt(text);
}

/** Collects an option that may be repeated. */
export const listed = (text: string, before: readonly string[] = []): readonly string[] => [...before, text];

/** Collects `key=value`. The value may contain further `=`. */
export function paired(text: string, before: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("It must be key=value.");
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
}
