import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { createTable } from "../proxy-table.ts";
import { recordColumn } from "./figure.ts";
import { type BenchFigure, comparedRounds, pageOf } from "./results.ts";
import { judge, pooled } from "./score.ts";
import { type Comparison, verdictOf } from "./verdict.ts";

const quiet = [0.8, 0.81, 0.79, 0.8, 0.8];
const scaled = (values: readonly number[], factor: number) => values.map((value) => value * factor);
const higher = (before: readonly number[], now: readonly number[]) => verdictOf({ better: "higher", before, now });

it("finds worse what is more than 10 % worse in quiet rounds", () => {
  expect(higher(quiet, scaled(quiet, 0.85))).toMatchObject({ kind: "worse" });
  expect(higher(quiet, scaled(quiet, 0.85)).change).toBeCloseTo(0.85, 5);
});

it("holds what is a little worse, the same or better", () => {
  for (const factor of [0.95, 1, 1.05]) expect(higher(quiet, scaled(quiet, factor)).kind).toBe("held");
  expect(higher(quiet, scaled(quiet, 1.3)).kind).toBe("better");
});

it("turns the direction for figures of which less is better", () => {
  const lower = (factor: number) => verdictOf({ better: "lower", before: quiet, now: scaled(quiet, factor) });
  expect([lower(1.3).kind, lower(1).kind, lower(0.7).kind]).toEqual(["worse", "held", "better"]);
  expect(lower(1.25).change).toBeCloseTo(0.8, 5);
});

it("gives no verdict when the rounds differ too much, and says so", () => {
  const wide = [0.4, 0.9, 0.6, 1.1, 0.7];
  const verdict = higher(wide, scaled(wide, 0.8));
  expect(verdict).toMatchObject({ kind: "unclear", reason: "the rounds differ too much for a verdict" });
  const [from = 0, to = 0] = verdict.interval ?? [];
  expect([from < 0.8, to > 1]).toEqual([true, true]);
});

it("asks for more rounds where the change is close to the limit", () => {
  expect(higher(quiet, scaled(quiet, 0.905))).toMatchObject({
    kind: "unclear",
    reason: "near 10 % worse: more rounds decide",
  });
});

it.each<[string, Comparison]>([
  ["two rounds", { better: "higher", before: quiet, now: [0.1, 0.1] }],
  ["no rounds", { better: "higher", before: [], now: quiet }],
  ["a median of 0", { better: "lower", before: [0, 0, 0], now: [1, 1, 1] }],
])("gives no verdict about %s", (_, comparison) => {
  expect(verdictOf(comparison).kind).toBe("unclear");
});

it("needs fewer rounds for the same certainty where they agree", () => {
  const noisy = [0.7, 0.8, 0.9];
  expect(higher(noisy, scaled(noisy, 0.85)).kind).toBe("unclear");
  expect(
    higher([...noisy, ...noisy, ...noisy, ...noisy], scaled([...noisy, ...noisy, ...noisy, ...noisy], 0.85)).kind,
  ).toBe("worse");
});

const figure = (own: readonly number[], peers: BenchFigure["peers"]): BenchFigure => ({
  ...{ bench: "proxy", name: "requests", unit: "req/s", better: "higher" },
  own,
  peers,
});

it("compares ratios to the peer of the same round, so that a slower machine is no regression", () => {
  const before = figure([80, 82, 78], { nginx: [100, 101, 99] });
  const slower = figure([40, 41, 39], { nginx: [50, 50.5, 49.5] });
  expect(judge(slower, [before]).verdict?.kind).toBe("held");
  const worse = figure([32, 33, 31], { nginx: [50, 50.5, 49.5] });
  expect(judge(worse, [before])).toMatchObject({ against: "its ratio to nginx", verdict: { kind: "worse" } });
});

it("prefers another build of the same rounds to stored ratios", () => {
  const kept = figure([10, 10, 10], { nginx: [100, 101, 99] });
  const now = figure([80, 82, 78], { nginx: [100, 101, 99], beside: [81, 82, 79] });
  expect(judge(now, [kept])).toMatchObject({ against: "its build", verdict: { kind: "held" } });
});

it("gives no verdict about a figure that the release does not have, or had beside another peer", () => {
  const now = figure([1, 1, 1], { nginx: [1, 1, 1] });
  expect(judge(now, []).verdict).toBeUndefined();
  expect(judge(now, [figure([1, 1, 1], { haproxy: [1, 1, 1] })]).verdict).toBeUndefined();
});

it("adds the rounds of a second measurement", () => {
  const twice = pooled(figure([1, 2], { nginx: [3, 4], beside: [5] }), [figure([6], { nginx: [7] })]);
  expect(twice).toMatchObject({ own: [1, 2, 6], peers: { nginx: [3, 4, 7] } });
});

it("records a column of a table as a figure, and writes ratios with their range", () => {
  const folder = mkdtempSync(join(tmpdir(), "latchkey-test-"));
  process.env["LATCHKEY_BENCH_FIGURES"] = join(folder, "figures");
  onTestFinished(() => {
    delete process.env["LATCHKEY_BENCH_FIGURES"];
    rmSync(folder, { recursive: true });
  });
  const table = createTable(["req/s", "p99 µs"]);
  for (const [own, peer] of [
    [50, 100],
    [60, 100],
    [90, 100],
  ] as const) {
    table.note("latchkey", [own, 5]);
    table.note("nginx", [peer, 4]);
  }
  recordColumn(table, {
    ...{ name: "requests", better: "higher", column: "req/s", own: "latchkey" },
    peers: { nginx: "nginx", beside: "beside" },
  });
  const recorded = JSON.parse(readFileSync(join(folder, "figures"), "utf8"));
  expect(recorded).toEqual({
    ...{ name: "requests", unit: "req/s", better: "higher", own: [50, 60, 90] },
    peers: { nginx: [100, 100, 100] },
  });
  expect(comparedRounds(recorded)).toEqual({ peer: "nginx", rounds: [0.5, 0.6, 0.9] });
  const page = pageOf({
    ...{ release: "1.2.3", date: "2026-01-02", node: "24.0.0", processor: "2 cores", load: ["0.1", "2.0"] },
    figures: [{ bench: "proxy", ...recorded }],
    missing: [{ bench: "http2", reason: "this bench needs h2load" }],
  });
  expect(page).toContain("| requests | req/s | more | 60.0 (50.0 to 90.0) | nginx: 100 | 0.60 (0.50 to 0.90) | 3 |");
  expect(page).toContain("- Not measured: `http2`: this bench needs h2load");
});
