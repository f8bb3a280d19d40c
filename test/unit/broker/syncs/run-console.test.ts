import { create } from "@bufbuild/protobuf";
import { expect, it, vi } from "vitest";
import type { LiveRun } from "../../../../src/broker/syncs/runs/live-runs.ts";
import { createRunConsole, storedSteps } from "../../../../src/broker/syncs/runs/run-console.ts";
import { createLineCollector, linesFrom } from "../../../../src/core/logs/log-lines.ts";
import { LogSchema } from "../../../../src/gen/latchkey/v1/log_pb.ts";
import { Run_State, RunSchema } from "../../../../src/gen/latchkey/v1/sync_pb.ts";

const run = create(RunSchema, { id: "r", state: Run_State.RUNNING });

function liveRun() {
  const collector = createLineCollector();
  let count = 0;
  const live: LiveRun = {
    log: {
      linesFrom: (position) => linesFrom(collector, position, () => (text) => text),
      onLine: () => () => {},
    },
    counts: new Map(),
    secrets: () => [],
  };
  const write = (lines: number) => {
    for (let i = 0; i < lines; i += 1) {
      collector.add({ atMs: count, level: "info", sentence: `line ${count}`, fields: {} });
      count += 1;
    }
  };
  return { live, write };
}

it("shows each line once, and a gap for those that the log no longer has", () => {
  const { live, write } = liveRun();
  const console = createRunConsole({ id: "r", liveRuns: { find: () => live }, onLine: () => {} });
  const texts = (isChanged = false) =>
    console
      .steps(run, isChanged)
      .flatMap((step) => (step.kind === "lines" ? step.lines.map(({ message }) => message) : step.kind));
  write(2);
  expect(texts(true)).toEqual(["run", "line 0", "line 1"]);
  expect(texts()).toEqual([]);
  write(90);
  expect(texts()).toHaveLength(90);
  // 92 were read. The log keeps the first 100 lines, and the last 100.
  write(308);
  const seen = texts();
  expect(seen.slice(0, 10)).toEqual([
    "line 92",
    "line 93",
    "line 94",
    "line 95",
    "line 96",
    "line 97",
    "line 98",
    "line 99",
    "gap",
    "line 300",
  ]);
  expect(seen.at(-1)).toBe("line 399");
});

it("shows the stored log of a run that it did not see, and that it is not whole", () => {
  const log = create(LogSchema, { truncated: true, lines: [{ message: "begin" }, { message: "end" }] });
  expect(storedSteps(log)).toMatchObject([
    { kind: "gap", missed: 0 },
    { kind: "lines", lines: log.lines },
  ]);
  expect(storedSteps({ ...log, truncated: false })).toMatchObject([{ kind: "lines" }]);
  expect(storedSteps(undefined)).toEqual([]);
});

it("says after a second that another process has the run", () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  const console = createRunConsole({ id: "r", liveRuns: { find: () => undefined }, onLine: () => {} });
  const kinds = (isChanged = false) => console.steps(run, isChanged).map(({ kind }) => kind);
  expect(kinds(true)).toEqual(["run"]);
  vi.advanceTimersByTime(999);
  expect(kinds()).toEqual([]);
  vi.advanceTimersByTime(1);
  expect([kinds(), kinds()]).toEqual([["elsewhere"], []]);
  vi.useRealTimers();
});
