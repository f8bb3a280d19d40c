import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { expect, it } from "vitest";
import { createTallies, createTimings } from "../../../../src/base/metrics/series.ts";

const bounds = [0.001, 0.1, 1];

/** The exposition of a registry with these metrics. */
function textOf(...metrics: readonly unknown[]): Promise<string> {
  const registry = new Registry();
  for (const metric of metrics) registry.registerMetric(metric as Counter);
  return registry.metrics();
}

it("prints the same as prom-client's own instruments", async () => {
  const counter = { name: "c_total", help: "Counted.", labels: ["door", "status"] };
  const gauge = { name: "g", help: "Open.", labels: [] };
  const histogram = { name: "h_seconds", help: "Took.", labels: ["door"] };
  const registers: Registry[] = [];
  const theirs = {
    counter: new Counter({ ...counter, labelNames: counter.labels, registers }),
    gauge: new Gauge({ ...gauge, registers }),
    histogram: new Histogram({ ...histogram, labelNames: histogram.labels, buckets: bounds, registers }),
  };
  const ours = {
    counter: Object.assign(createTallies(counter, "counter"), counter),
    gauge: Object.assign(createTallies(gauge, "gauge"), gauge),
    histogram: Object.assign(createTimings(histogram, bounds), histogram),
  };
  const labels = { door: "data", status: "200" };
  for (const by of [1, 5]) {
    theirs.counter.inc(labels, by);
    ours.counter.series(labels).add(by);
  }
  theirs.counter.inc({ door: 'a "quoted"\nname', status: "404" });
  ours.counter.series({ door: 'a "quoted"\nname', status: "404" }).add();
  theirs.gauge.inc(3);
  theirs.gauge.dec();
  ours.gauge.series({}).add(3);
  ours.gauge.series({}).add(-1);
  // On a bound, between two, and above the last.
  for (const seconds of [0.001, 0.0011, 0.5, 1, 7]) {
    theirs.histogram.observe({ door: "data" }, seconds);
    ours.histogram.series({ door: "data" }).observe(seconds);
  }
  const text = await textOf(ours.counter, ours.gauge, ours.histogram);
  expect(text).toBe(await textOf(theirs.counter, theirs.gauge, theirs.histogram));
  expect(text).toContain('h_seconds_bucket{le="1",door="data"} 4');
});

it("keeps series apart whose labels hold the same text in other places", async () => {
  const family = createTallies({ name: "t", help: "T.", labels: ["a", "b"] }, "counter");
  family.series({ a: "x", b: "" }).add();
  expect(family.series({ a: "", b: "x" }).value).toBe(0);
  expect(family.series({ b: "", a: "x" }).value).toBe(1);
});
