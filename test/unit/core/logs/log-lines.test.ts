import { expect, it } from "vitest";
import { createLineCollector, keptLines, maxLinesPerEnd } from "../../../../src/core/logs/log-lines.ts";

it("holds no more lines in memory than it will keep", () => {
  const collector = createLineCollector();
  for (let attempt = 0; attempt < 10_000; attempt += 1) {
    collector.add({ atMs: 0, level: "info", sentence: "a line", fields: { attempt } });
  }
  expect(collector.head.length + collector.tail.length).toBe(2 * maxLinesPerEnd);
  const { lines, isTruncated } = keptLines(collector, (text) => text);
  expect([lines.length, isTruncated]).toEqual([2 * maxLinesPerEnd, true]);
  expect([lines[0], lines.at(-1)].map((line) => line?.fields?.["attempt"])).toEqual([0, 9_999]);
});

it("leaves a short log as it was", () => {
  const collector = createLineCollector();
  collector.add({ atMs: 0, level: "error", sentence: "a line", fields: { code: "invalid_grant" } });
  const { lines, isTruncated } = keptLines(collector, (text) => text);
  expect(lines).toMatchObject([{ level: "error", message: "a line", fields: { code: "invalid_grant" } }]);
  expect(isTruncated).toBe(false);
});
