import { constants, type PerformanceEntry, PerformanceObserver } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import vm from "node:vm";
import { expect, it, onTestFinished, vi } from "vitest";
import { createYoungCollection } from "../../../../src/base/node/young-collection.ts";

interface GcDetail {
  readonly kind: number;
  readonly flags: number;
}

it("has the young looked at once for every 4 MiB that pass, and leaves no flag behind", async () => {
  const kinds: unknown[] = [];
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      const { kind, flags } = (entry as PerformanceEntry & { readonly detail: GcDetail }).detail;
      if ((flags & constants.NODE_PERFORMANCE_GC_FLAGS_FORCED) !== 0) kinds.push(kind);
    }
  });
  observer.observe({ entryTypes: ["gc"] });
  onTestFinished(() => observer.disconnect());
  const note = createYoungCollection();
  for (let i = 0; i < 3 * 64; i += 1) note(64 * 1024);
  await sleep(100);
  expect(kinds).toEqual(Array(3).fill(constants.NODE_PERFORMANCE_GC_MINOR));
  expect(globalThis.gc).toBeUndefined();
});

it("continues without collections where V8 has no such function", () => {
  vi.spyOn(vm, "runInNewContext").mockReturnValue(undefined);
  onTestFinished(() => void vi.restoreAllMocks());
  const note = createYoungCollection();
  expect(() => note(8 * 1024 * 1024)).not.toThrow();
});
