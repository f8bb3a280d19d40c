import { randomInt } from "node:crypto";
import { Fault } from "../../base/fault.ts";
import { type Approval, ApprovalState } from "../../gen/latchkey/v1/approval_pb.ts";
import type { Change } from "../../store/contract.ts";
import type { ApprovalCollections } from "./approval-collections.ts";

/** Requests of an environment that may wait for people at a time. */
export const maxWaiting = 1_000;
/** Slots that are looked at before all are listed. */
const tries = 16;

type SlotCollections = Pick<ApprovalCollections, "approvalSlots">;

/**
 * Returns the change by which a waiting approval takes a free slot of its environment. Two that take the same one
 * conflict, so that no more can wait than there are slots, whatever a replica knows. A shared counter would make all
 * conflict.
 */
export async function takenSlot(
  { approvalSlots }: SlotCollections,
  { environment, id: approvalId }: Pick<Approval, "environment" | "id">,
): Promise<Change[]> {
  const number = await freeSlot({ approvalSlots }, environment);
  if (number === undefined) throw tooManyWait();
  return approvalSlots.change({
    before: undefined,
    after: { $typeName: "latchkey.stored.v1.ApprovalSlot", environment, number, approvalId },
  });
}

async function freeSlot({ approvalSlots }: SlotCollections, environment: string): Promise<number | undefined> {
  const drawn = Array.from({ length: tries }, () => randomInt(maxWaiting));
  const found = await approvalSlots.getMany(drawn.map((number) => [environment, String(number)]));
  const free = drawn.find((_, i) => found[i] === undefined);
  if (free !== undefined) return free;
  const all = await approvalSlots.page({ under: [environment], limit: maxWaiting });
  const taken = new Set(all.map(({ value }) => value.number));
  const left = Array.from({ length: maxWaiting }, (_, number) => number).filter((number) => !taken.has(number));
  return left.length === 0 ? undefined : left[randomInt(left.length)];
}

/** Returns the changes that free the slot of an approval that does not wait any more. */
export async function freedSlot({ approvalSlots }: SlotCollections, before: Approval): Promise<Change[]> {
  const { environment, id, state } = before;
  if (state !== ApprovalState.WAITING) return [];
  const found = await approvalSlots.pageBy("approval", { under: [environment, id], limit: 1 });
  return found.flatMap((slot) => approvalSlots.change({ before: slot, after: undefined }));
}

export const tooManyWait = () =>
  new Fault("too_many_requests", `${maxWaiting} requests wait for an approval already; try again later`, {
    retryAfterSeconds: 60,
  });
