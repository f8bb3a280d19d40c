import { expect, it } from "vitest";
import { createJobPool } from "../../../src/base/job-pool.ts";

function pool({ pauseMs = 3_600_000 } = {}) {
  const ended: string[] = [];
  const jobs = createJobPool({ most: () => 3, mostOfGroup: () => 2, pauseMs, onEnded: () => ended.push("ended") });
  const begin = (key: string, group: string) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    jobs.begin({ key, group }, () => promise);
    return resolve;
  };
  return { jobs, begin, ended };
}

it("runs one job of a key at a time", async () => {
  const { jobs, begin } = pool();
  const end = begin("a", "g");
  expect(jobs.has("a")).toBe(true);
  expect(jobs.mayBegin({ key: "a", group: "other" })).toBe(false);
  end();
  await jobs.allEnded();
  expect(jobs.has("a")).toBe(false);
  expect(jobs.mayBegin({ key: "a", group: "other" })).toBe(true);
});

it("bounds the jobs of a group, and all jobs", async () => {
  const { jobs, begin } = pool();
  const endOne = begin("a", "g");
  begin("b", "g");
  expect(jobs.mayBegin({ key: "c", group: "g" })).toBe(false);
  expect(jobs.mayBegin({ key: "c", group: "h" })).toBe(true);
  begin("c", "h");
  expect(jobs.mayBegin({ key: "d", group: "i" })).toBe(false);
  endOne();
  await jobs.oneEnded();
  expect(jobs.size).toBe(2);
  expect(jobs.mayBegin({ key: "d", group: "g" })).toBe(true);
});

it("reports the end of a job, when there is room again", async () => {
  const { jobs, begin, ended } = pool();
  const end = begin("a", "g");
  end();
  await jobs.oneEnded();
  expect(ended).toEqual(["ended"]);
  expect(jobs.size).toBe(0);
});

it("holds back a key whose job failed, and no other key", () => {
  const { jobs } = pool();
  jobs.pause("a");
  expect(jobs.mayBegin({ key: "a", group: "g" })).toBe(false);
  expect(jobs.mayBegin({ key: "b", group: "g" })).toBe(true);
});

it("lets a key start again after its pause", () => {
  const { jobs } = pool({ pauseMs: 0 });
  jobs.pause("a");
  expect(jobs.mayBegin({ key: "a", group: "g" })).toBe(true);
});

it("waits for no job when none runs", async () => {
  const { jobs } = pool();
  await jobs.oneEnded();
  await jobs.allEnded();
});
