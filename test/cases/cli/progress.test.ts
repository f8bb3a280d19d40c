import { expect, it } from "vitest";
import { createProgress, progressLine } from "../../../src/cli/terminal/progress.ts";
import { memoryTerminal } from "./memory-terminal.ts";

const half = { done: 500, total: 1_000, items: 420_000, failed: 3 };

it("shows progress, speed and remaining time", () => {
  expect(progressLine(half, 20_000, { bar: true })).toBe(
    "[##########----------]   50 %  420,000 items  21,000/s  3 failed  20 s left",
  );
  expect(progressLine(half, 20_000, { bar: false })).toBe("50 %  420,000 items  21,000/s  3 failed  20 s left");
});

it("shows no failures if there are none", () => {
  expect(progressLine({ done: 1, total: 2, items: 1 }, 1_000, { bar: false })).toBe("50 %  1 items  1/s  1.0 s left");
});

it("promises no end where none can be known", () => {
  expect(progressLine({ ...half, total: undefined }, 20_000, { bar: true })).toBe("420,000 items  21,000/s  3 failed");
});

it("fits into 80 columns even at its longest", () => {
  const longest = { done: 1, total: 3, items: 99_999_999, failed: 9_999_999 };
  expect(progressLine(longest, 86_399_000, { bar: true }).length).toBeLessThan(80);
});

it("survives the first moment and an empty file", () => {
  const nothing = { done: 0, total: 0, items: 0, failed: 0 };
  expect(progressLine(nothing, 0, { bar: true })).toBe("0 items  0/s  0 failed");
  expect(progressLine({ ...nothing, total: 10 }, 0, { bar: false })).toBe("0 %  0 items  0/s  0 failed");
});

function display(as: "bar" | "lines" | "nothing") {
  const clock = { ms: 0 };
  const terminal = memoryTerminal();
  const progress = createProgress({ stderr: terminal.stderr, as, now: () => clock.ms });
  const runFor = (ms: number) => {
    for (const until = clock.ms + ms; clock.ms < until; clock.ms += 10) progress.update(half);
  };
  return { progress, terminal, runFor };
}

it("redraws a bar at most 10 times a second", () => {
  const { terminal, runFor } = display("bar");
  runFor(2_000);
  expect(terminal.err().split("\r\x1b[K").length - 1).toBeLessThanOrEqual(20);
  expect(terminal.err()).not.toContain("\n");
});

it("writes a plain line every 5 seconds where no one watches", () => {
  const { terminal, runFor } = display("lines");
  runFor(16_000);
  expect(terminal.err().trimEnd().split("\n")).toHaveLength(3);
  expect(terminal.err()).not.toContain("\x1b");
});

it("is quiet on request, and still prints errors", () => {
  const { terminal, progress, runFor } = display("nothing");
  runFor(16_000);
  progress.say("line 3: no");
  progress.end();
  expect(terminal.err()).toBe("line 3: no\n");
});

it("keeps a bar below the output, and removes it at the end", () => {
  const { terminal, progress, runFor } = display("bar");
  runFor(150);
  progress.say("line 3: no");
  progress.end();
  const [, afterBar] = terminal.err().split("line 3: no\n");
  expect(afterBar).toBe(`${progressLine(half, 100, { bar: true })}\r\x1b[K`);
});
