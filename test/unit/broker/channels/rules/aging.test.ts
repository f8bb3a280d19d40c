import { expect, it } from "vitest";
import { ageSlot } from "../../../../../src/broker/channels/rules/aging.ts";
import { recordMade } from "../../../../../src/broker/channels/rules/making.ts";
import { applyChanges } from "../../../../../src/broker/channels/rules/move.ts";
import { currentOf, stateOf } from "../../../../../src/broker/channels/rules/slot.ts";
import { tasksOf } from "../../../../../src/broker/channels/rules/tasks.ts";
import { answerMs, claimMs } from "../../../../../src/broker/channels/rules/times.ts";
import { Channel_State as State } from "../../../../../src/gen/latchkey/v1/channel_pb.ts";
import { answer, ask, dayMs, never, renewing, t0, wish } from "../../../core/calendar-slot.ts";

it("a channel with an unknown outcome is requested again, and stopped if it exists", () => {
  const now = t0 + 6 * dayMs;
  const slot = renewing(now);
  const late = now + answerMs;
  const after = applyChanges(
    slot,
    ageSlot(slot, { nowMs: late, random: 0 }, () => "x"),
  );
  expect(tasksOf(after, late)).toEqual([{ ask: "stop", id: "b", resourceId: "r", providerId: "" }]);
  expect(stateOf(currentOf(after) ?? never())).toBe(State.ACTIVE);
});

it("a channel is stopped when its answer comes after it was given up", () => {
  const asked = ask([wish()], "a", "a", t0);
  const late = t0 + 2 * answerMs;
  const given = applyChanges(
    asked,
    ageSlot(asked, { nowMs: late, random: 0 }, () => "x"),
  );
  expect(tasksOf(given, late)).toEqual([{ ask: "watch", id: "x" }]);
  const after = applyChanges(given, recordMade(given, asked[0] ?? never(), answer(late), { nowMs: late, random: 0 }));
  expect(tasksOf(after, late + claimMs)).toContainEqual({ ask: "stop", id: "a", resourceId: "r", providerId: "" });
});
