import { expect, it } from "vitest";
import { createMetrics } from "../../../../src/base/metrics/metrics.ts";
import { StoreUnavailable } from "../../../../src/store/contract.ts";
import { createRefusals } from "../../../../src/store/level/refusals.ts";

it("stops the queue for the most important cause, and resumes it after the last", () => {
  const told: (string | undefined)[] = [];
  const queue = {
    stop: ({ message }: StoreUnavailable) => void told.push(message),
    resume: () => void told.push(undefined),
  };
  const refusals = createRefusals({ queue, metrics: createMetrics() });
  refusals.set("moved", new StoreUnavailable("moved"));
  refusals.set("writeError", new StoreUnavailable("failed"));
  refusals.set("diskFull", new StoreUnavailable("full"));
  expect(refusals.current?.message).toBe("failed");
  refusals.set("writeError", undefined);
  expect(refusals.of("diskFull")?.message).toBe("full");
  refusals.set("moved", undefined);
  refusals.set("diskFull", undefined);
  expect(refusals.current).toBeUndefined();
  expect(told).toEqual(["moved", "failed", "failed", "full", "full", undefined]);
});
