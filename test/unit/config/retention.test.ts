import { expect, it } from "vitest";
import { parseChangeable } from "../../../src/config/config.ts";
import { defaultRetention } from "../../../src/config/retention.ts";

const read = (text: string) =>
  parseChangeable({ path: "/latchkey.yaml", env: {}, files: { read: () => ({ text, mode: 0o600 }) } }).retention;

it.each([
  ["nothing is said", "{}", defaultRetention],
  ["days", "retention: { logs: 14d }", { ...defaultRetention, maxAgeMs: 14 * 86_400_000 }],
  [
    "hours, and how many",
    "retention: { logs: 36h, log_count: 500 }",
    { ...defaultRetention, maxAgeMs: 36 * 3_600_000, maxCount: 500 },
  ],
  ["of forwards", "retention: { deliveries: 30d }", { ...defaultRetention, deliveriesMs: 30 * 86_400_000 }],
  ["of records", "retention: { records: 90d }", { ...defaultRetention, recordsMs: 90 * 86_400_000 }],
])("applies the retention of the file: %s", (_what, text, expected) => {
  expect(read(text)).toEqual(expected);
});

it.each([
  ["retention: { logs: 59m }", "retention.logs: must be from 1h to 366d"],
  ["retention: { logs: 367d }", "retention.logs: must be from 1h to 366d"],
  ["retention: { logs: a week }", "500ms, 1s, 15m, 24h or 7d"],
  ["retention: { log_count: 99 }", "log_count"],
  ["retention: { log_count: 1000001 }", "log_count"],
  ["retention: { deliveries: 59m }", "retention.deliveries: must be from 1h to 366d"],
  ["retention: { records: 367d }", "retention.records: must be from 1h to 366d"],
  ["retention: { runs: 7d }", "runs"],
])("refuses %s", (text, message) => {
  expect(() => read(text)).toThrow(message);
});
