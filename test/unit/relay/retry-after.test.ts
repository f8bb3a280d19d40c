import { expect, it } from "vitest";
import { retryAfterMs } from "../../../src/core/outgoing/retry-after.ts";

const now = Date.UTC(2026, 0, 1, 12);

it.each([
  ["5", "", 5_000],
  ["0", "", 0],
  ["1.5", "", 1_500],
  // RFC 9110, 5.6.7: the date of today, and the two of old.
  ["Thu, 01 Jan 2026 12:00:30 GMT", "", 30_000],
  ["Thursday, 01-Jan-26 12:00:30 GMT", "", 30_000],
  ["Thu Jan  1 12:00:30 2026", "", 30_000],
  ["Thu, 01 Jan 2026 11:00:00 GMT", "", 0],
  ["Thu, 01 Jan 2026 12:00:30 GMT", "http_date", 30_000],
  [String(now / 1_000 + 7), "unix_seconds", 7_000],
  [String(now + 7), "unix_ms", 7],
  [String(now - 7), "unix_ms", 0],
])("reads %j (%s)", (value, unit, expected) => {
  expect(retryAfterMs(value, unit, now)).toBe(expected);
});

it.each(["", "-1", "abc", "abc 5", "1e12", "5 s", "0x5", "12:00", "2026", "Infinity", "NaN", "May 5"])(
  "ignores %j",
  (value) => {
    const expected = value === "2026" ? 2_026_000 : undefined;
    expect(retryAfterMs(value, "", now)).toBe(expected);
  },
);

it("ignores a missing field", () => {
  expect(retryAfterMs(undefined, "", now)).toBeUndefined();
});
