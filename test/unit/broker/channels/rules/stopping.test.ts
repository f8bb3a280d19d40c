import { expect, it } from "vitest";
import { ageSlot } from "../../../../../src/broker/channels/rules/aging.ts";
import { recordMade } from "../../../../../src/broker/channels/rules/making.ts";
import { applyChanges } from "../../../../../src/broker/channels/rules/move.ts";
import { currentOf, idOf, stateOf } from "../../../../../src/broker/channels/rules/slot.ts";
import {
  recordConnectionGone,
  recordNotStopped,
  requestStop,
} from "../../../../../src/broker/channels/rules/stopping.ts";
import { claimedIn, tasksOf } from "../../../../../src/broker/channels/rules/tasks.ts";
import { claimMs } from "../../../../../src/broker/channels/rules/times.ts";
import { Channel_State as State } from "../../../../../src/gen/latchkey/v1/channel_pb.ts";
import { active, answer, dayMs, lifeMs, never, renewing, t0 } from "../../../core/calendar-slot.ts";

it("a channel is stopped only once the next one exists", () => {
  const now = t0 + 6 * dayMs;
  const slot = renewing(now);
  expect(slot.map((one) => [idOf(one), stateOf(one)]).sort()).toEqual([
    ["a", State.RENEWING],
    ["b", State.CREATING],
  ]);
  expect(tasksOf(slot, now)).toEqual([]);
  const next = slot.find((one) => idOf(one) === "b") ?? never();
  const after = applyChanges(slot, recordMade(slot, next, answer(now), { nowMs: now, random: 0 }));
  expect(claimedIn({ put: after, removed: [], notices: [] }, after, now)).toEqual([
    { ask: "stop", id: "a", resourceId: "r", providerId: "" },
  ]);
  expect(tasksOf(after, now)).toEqual([]);
  expect(tasksOf(after, now + claimMs)).toEqual([{ ask: "stop", id: "a", resourceId: "r", providerId: "" }]);
  expect(idOf(currentOf(after) ?? never())).toBe("b");
});

it("C09 a channel of another client is left to expire", () => {
  const slot = applyChanges(active(), requestStop(active(), "a", t0));
  const refused = { code: "status_403", isHopeless: true };
  const after = applyChanges(slot, recordNotStopped(slot, "a", refused, { nowMs: t0, random: 0 }));
  expect(tasksOf(after, t0 + lifeMs - 1)).toEqual([]);
  const over = applyChanges(
    after,
    ageSlot(after, { nowMs: t0 + lifeMs, random: 0 }, () => "x"),
  );
  expect(over.map(stateOf)).toEqual([State.EXPIRED]);
});

it("a channel whose connection is gone expires without a request", () => {
  const slot = applyChanges(active(), recordConnectionGone(active(), t0));
  expect(tasksOf(slot, t0 + lifeMs - 1)).toEqual([]);
  expect(slot.map(stateOf)).toEqual([State.STOPPING]);
});
