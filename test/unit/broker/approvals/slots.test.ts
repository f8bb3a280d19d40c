import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { Fault } from "../../../../src/base/fault.ts";
import { createLog } from "../../../../src/base/log.ts";
import { createMetrics } from "../../../../src/base/metrics/metrics.ts";
import { createApprovalCollections } from "../../../../src/broker/approvals/approval-collections.ts";
import { freedSlot, maxWaiting, takenSlot } from "../../../../src/broker/approvals/approval-slots.ts";
import { type Approval, ApprovalState } from "../../../../src/gen/latchkey/v1/approval_pb.ts";
import { openLevelStore } from "../../../../src/store/level/level.ts";
import { transact } from "../../../../src/store/records.ts";
import { temporaryFolder } from "../../../support/sidecar/harness.ts";

it("lets exactly 1,000 requests of an environment wait, however many come at once", async () => {
  const log = createLog({ level: "error", format: "json", write: () => {} });
  const store = await openLevelStore({ folder: join(await temporaryFolder(), "store"), log, metrics: createMetrics() });
  onTestFinished(() => store.close());
  const collections = createApprovalCollections(store);
  const take = async (environment: string, n: number): Promise<string> => {
    try {
      const wanted = { environment, id: `approval-${n}` };
      await transact(store, async () => ({ changes: await takenSlot(collections, wanted), result: undefined }));
      return "waits";
    } catch (error) {
      if (error instanceof Fault) return error.code;
      throw error;
    }
  };
  const takeMany = async (from: number, count: number) =>
    Promise.all(Array.from({ length: count }, (_, i) => take("dev", from + i)));

  const { approvalSlots } = collections;
  const $typeName = "latchkey.stored.v1.ApprovalSlot" as const;
  const taken = Array.from({ length: maxWaiting - 50 }, (_, number) => ({
    ...{ $typeName, environment: "dev", number, approvalId: `approval-${number}` },
  }));
  await store.commit(taken.flatMap((after) => approvalSlots.change({ before: undefined, after })));
  // The last places, for which all of these come at once.
  const last = await takeMany(taken.length, 90);
  expect(last.filter((one) => one === "waits")).toHaveLength(50);
  expect(last.filter((one) => one === "too_many_requests")).toHaveLength(40);
  expect(await take("prod", 1)).toBe("waits");

  const free = async (state: ApprovalState) => {
    const approval = { environment: "dev", id: "approval-7", state } as Approval;
    await transact(store, async () => ({ changes: await freedSlot(collections, approval), result: undefined }));
  };
  // One that was answered has no place any more.
  await free(ApprovalState.APPROVED);
  expect(await take("dev", 2_000)).toBe("too_many_requests");
  await free(ApprovalState.WAITING);
  expect([await take("dev", 2_000), await take("dev", 2_001)]).toEqual(["waits", "too_many_requests"]);
});
