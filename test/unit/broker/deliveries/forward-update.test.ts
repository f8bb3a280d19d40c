import { create, ScalarType } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import { updateAfter, updated } from "../../../../src/broker/deliveries/attempts/forward-update.ts";
import type { DeliveryVerdict } from "../../../../src/broker/deliveries/attempts/verdict.ts";
import { type StoredForward, StoredForwardSchema } from "../../../../src/gen/latchkey/stored/v1/stored_pb.ts";
import { AttemptSchema, Forward_State as State } from "../../../../src/gen/latchkey/v1/webhook_pb.ts";

const nowMs = 1_000_000;
const pending = create(StoredForwardSchema, { state: State.PENDING, nextAttemptAt: timestampFromMs(nowMs) });
const failed: DeliveryVerdict = { kind: "failed", reason: "status_500", retryAfterMs: undefined };

function attempted(value: StoredForward, verdict: DeliveryVerdict): StoredForward {
  const attempt = create(AttemptSchema, { number: value.attemptCount + 1 });
  return updated(value, updateAfter(value, { attempt, verdict, nowMs, random: 0 }), nowMs);
}

describe("a forward after an attempt", () => {
  it("that delivered it is due no more", () => {
    const { state, attemptCount, nextAttemptAt } = attempted(pending, { kind: "delivered" });
    expect([state, attemptCount, nextAttemptAt]).toEqual([State.DELIVERED, 1, undefined]);
  });

  it("that failed waits for the next time of the schedule", () => {
    const { state, stateReason, scheduleStep, nextAttemptAt } = attempted(pending, failed);
    expect([state, stateReason, scheduleStep]).toEqual([State.PENDING, "status_500", 1]);
    expect(nextAttemptAt).toEqual(timestampFromMs(nowMs + 5_000));
  });

  it("that failed is dead after the last time of the schedule", () => {
    const { state, stateReason } = attempted({ ...pending, scheduleStep: 9 }, failed);
    expect([state, stateReason]).toEqual([State.DEAD, "status_500"]);
  });

  it("that can never succeed is dead at once", () => {
    const { state, stateReason } = attempted(pending, { kind: "impossible", reason: "address_forbidden" });
    expect([state, stateReason]).toEqual([State.DEAD, "address_forbidden"]);
  });

  it("whose destination is gone keeps its place in the schedule", () => {
    const { state, scheduleStep, nextAttemptAt } = attempted({ ...pending, scheduleStep: 3 }, { kind: "gone" });
    expect([state, scheduleStep, nextAttemptAt]).toEqual([State.PENDING, 3, timestampFromMs(nowMs)]);
  });

  it("keeps all fields that the attempt does not change, also those of a later version", () => {
    const full: StoredForward = {
      ...create(StoredForwardSchema, { scheduledFor: timestampFromMs(1), createdAt: timestampFromMs(2) }),
      ...pending,
      $unknown: [{ no: 99, wireType: 0, data: new Uint8Array([1]) }],
    };
    for (const { localName, fieldKind, scalar } of StoredForwardSchema.fields) {
      if (fieldKind !== "scalar" || localName === "state") continue;
      const value = scalar === ScalarType.STRING ? localName : scalar === ScalarType.BYTES ? new Uint8Array([7]) : 7;
      Object.assign(full, { [localName]: value });
    }
    full.attempts = [create(AttemptSchema, { number: 1 })];
    full.updatedAt = timestampFromMs(nowMs);
    expect(updated(full, {}, nowMs)).toEqual(full);
    expect(
      StoredForwardSchema.fields.filter(({ localName }) => full[localName as keyof StoredForward] === undefined),
    ).toEqual([]);
  });

  it("keeps the last 20 attempts", () => {
    let value: StoredForward = pending;
    for (let i = 0; i < 25; i += 1) value = attempted({ ...value, state: State.PENDING }, failed);
    expect(value.attempts.map(({ number }) => number)).toEqual(Array.from({ length: 20 }, (_, i) => i + 6));
  });
});
