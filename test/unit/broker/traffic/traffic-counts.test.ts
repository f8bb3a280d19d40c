import { expect, it } from "vitest";
import { createMetrics } from "../../../../src/base/metrics/metrics.ts";
import { outcomes } from "../../../../src/broker/traffic/day-series.ts";
import { DurationCounts } from "../../../../src/broker/traffic/duration-counts.ts";
import { createTrafficCounts } from "../../../../src/broker/traffic/traffic-counts.ts";

const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;
const answered = { outcome: outcomes.answered, status: 200, addedMs: 1, wholeMs: 20 };

function start() {
  const clock = { ms: 1_000 * dayMs };
  const counts = createTrafficCounts({ now: () => clock.ms, metrics: createMetrics() });
  const requestsOf = (step: number, integration = "") => {
    const { total, series } = counts.read({ environment: "dev", integration, sinceMs: 0, step, maxSeries: 101 });
    return (total ?? series[0]?.points ?? []).map(({ requests }) => requests);
  };
  return { clock, counts, requestsOf };
}

it("files each minute, sums up longer steps, and forgets a day later", () => {
  const { clock, counts, requestsOf } = start();
  const one = counts.of("dev", "one");
  const add = (times: number) => {
    // The monotonic clock of the test stands still: reading moves the minute on.
    requestsOf(1);
    for (let i = 0; i < times; i += 1) one.add(0, answered);
  };
  add(3);
  clock.ms += minuteMs;
  add(2);
  counts.of("dev", "two").add(0, answered);
  clock.ms += 8 * minuteMs;
  add(4);
  expect(requestsOf(1).slice(-10)).toEqual([3, 3, 0, 0, 0, 0, 0, 0, 0, 4]);
  expect(requestsOf(1, "one").slice(-10)).toEqual([3, 2, 0, 0, 0, 0, 0, 0, 0, 4]);
  expect(requestsOf(5).slice(-2)).toEqual([6, 4]);
  expect(requestsOf(60).at(-1)).toBe(10);
  clock.ms += 60 * minuteMs;
  expect(requestsOf(60).slice(-2)).toEqual([10, 0]);
  expect(requestsOf(5).filter((requests) => requests > 0)).toEqual([6, 4]);
  clock.ms += dayMs;
  for (const step of [1, 5, 60]) expect(new Set(requestsOf(step))).toEqual(new Set([0]));
  add(1);
  expect(requestsOf(1).filter((requests) => requests > 0)).toEqual([1]);
});

it("keeps a hundred integrations, and counts the rest together", () => {
  const { counts } = start();
  for (let i = 0; i < 130; i += 1) counts.of("dev", `i${i}`).add(0, answered);
  counts.find("dev", "unknown").add(0, answered);
  const { total, series } = counts.read({ environment: "dev", integration: "", sinceMs: 0, step: 60, maxSeries: 200 });
  expect(series).toHaveLength(101);
  expect(series[0]?.integration).toBeUndefined();
  expect(series[0]?.points.at(-1)?.requests).toBe(31);
  expect(total?.at(-1)?.requests).toBe(131);
});

it("knows quantiles to a tenth, and holds times of any length", () => {
  const counts = new DurationCounts();
  for (let ms = 1; ms <= 1_000; ms += 1) counts.add(ms);
  for (const [part, ms] of [
    [0.5, 500],
    [0.9, 900],
    [0.99, 990],
  ] as const)
    expect(Math.abs(counts.quantile(part) / ms - 1)).toBeLessThan(0.1);
  counts.clear();
  expect(counts.quantile(0.5)).toBe(0);
  for (const odd of [0, -1, 1e-9, 1e12]) counts.add(odd);
  expect([counts.quantile(0.1) < 0.01, counts.quantile(1) > 100_000]).toEqual([true, true]);
});
