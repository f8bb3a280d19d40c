import { expect, it } from "vitest";
import { lifetimeMs, lifetimeUntilMs } from "../../../../src/auth/oauth2/token-lifetime.ts";

const tenYears = 315_360_000_000;
const now = Date.UTC(2026, 0, 1);

it.each([
  ["missing", undefined, undefined],
  ["null", null, undefined],
  ["empty", "", undefined],
  ["a word", "abc", undefined],
  ["true", true, undefined],
  ["an object", {}, undefined],
  ["a list", [3600], undefined],
  ["a number and more", "3600s", undefined],
  ["hexadecimal", "0x10", undefined],
  ["0", 0, 0],
  ['"0"', "0", 0],
  ["3600", 3600, 3_600_000],
  ['"3600"', "3600", 3_600_000],
  ['" 3600 "', " 3600 ", 3_600_000],
  ['"3600.5"', "3600.5", 3_600_000],
  ["3600.7", 3600.7, 3_600_000],
  ['"1e3"', "1e3", 1_000_000],
  ['"1e9"', "1e9", tenYears],
  ["-1", -1, 0],
  ['"-1"', "-1", 0],
  ["1e13", 1e13, tenYears],
  ["thirty nines", "9".repeat(30), tenYears],
  ["more than a double can hold", JSON.parse("1e999"), tenYears],
  ["four hundred digits", "9".repeat(400), tenYears],
  ["five hundred digits", "9".repeat(500), undefined],
])("O11: expires_in that is %s", (_, value, expected) => {
  expect(lifetimeMs(value, "")).toBe(expected);
});

it.each([
  ["3600000", 3_600_000],
  [1500.9, 1_500],
  [1e13, tenYears],
])("O11: expires_in of %s milliseconds", (value, expected) => {
  expect(lifetimeMs(value, "ms")).toBe(expected);
});

it.each([
  ["", now / 1_000 + 60, 60_000],
  ["s", `${now / 1_000 + 60}`, 60_000],
  ["ms", now + 60_000, 60_000],
  ["iso", "2026-01-01T00:01:00Z", 60_000],
  ["iso", "2026-01-01T02:01:00.000+02:00", 60_000],
  ["iso", "2025-01-01T00:00:00Z", 0],
  ["iso", "2999-01-01T00:00:00Z", tenYears],
  // Never guessed: seconds stay seconds, even if milliseconds are plausible.
  ["s", now, tenYears],
  ["ms", now / 1_000, 0],
  ["iso", now / 1_000, undefined],
  ["iso", "2026-01-01T00:01:00", undefined],
  ["iso", "2026-13-01T00:01:00Z", undefined],
  ["iso", "tomorrow", undefined],
  ["s", "2026-01-01T00:01:00Z", undefined],
  ["s", "00:01:00:00", undefined],
])("O11: expires_at in %s that is %s", (unit, value, expected) => {
  expect(lifetimeUntilMs(value, unit, now)).toBe(expected);
});
