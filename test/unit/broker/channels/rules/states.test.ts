import { expect, it } from "vitest";
import { ageSlot } from "../../../../../src/broker/channels/rules/aging.ts";
import { applyChanges } from "../../../../../src/broker/channels/rules/move.ts";
import { stateOf } from "../../../../../src/broker/channels/rules/slot.ts";
import { transition } from "../../../../../src/broker/channels/rules/states.ts";
import { Channel_State as State } from "../../../../../src/gen/latchkey/v1/channel_pb.ts";
import { dayMs, t0, wish } from "../../../core/calendar-slot.ts";

it("knows where an event leads, and refuses one that cannot happen", () => {
  const asked = transition(wish(), "asked", { nowMs: t0 });
  const active = transition(asked, "made", { nowMs: t0 });
  expect([asked, active].map(stateOf)).toEqual([State.CREATING, State.ACTIVE]);
  expect(() => transition(active, "refused", { nowMs: t0 })).toThrow("has no transition refused");
  expect(() => transition(wish(), "stopped", { nowMs: t0 })).toThrow("has no transition stopped");
});

it("keeps an ended channel for a week, and then forgets it", () => {
  const over = transition(wish(), "forgone", { nowMs: t0 });
  const after = (nowMs: number) =>
    applyChanges(
      [over],
      ageSlot([over], { nowMs, random: 0 }, () => "x"),
    );
  expect(after(t0 + 7 * dayMs - 1).map(stateOf)).toEqual([State.STOPPED]);
  expect(after(t0 + 7 * dayMs)).toEqual([]);
});
