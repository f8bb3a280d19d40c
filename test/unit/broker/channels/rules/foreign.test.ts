import { expect, it } from "vitest";
import { adoptChannel, disownChannel, renewOvertaken } from "../../../../../src/broker/channels/rules/foreign.ts";
import { applyChanges } from "../../../../../src/broker/channels/rules/move.ts";
import { currentOf, idOf, type Slot } from "../../../../../src/broker/channels/rules/slot.ts";
import { tasksOf } from "../../../../../src/broker/channels/rules/tasks.ts";
import { active, place, renewing, t0 } from "../../../core/calendar-slot.ts";

const withForeign = (slot: Slot): Slot =>
  applyChanges(slot, adoptChannel(slot, place, { id: "script", resourceId: "s" }, t0));

it("knows a script's own channel once, and asks its provider for nothing", () => {
  const slot = withForeign(withForeign([]));
  expect(slot.map(idOf)).toEqual(["script"]);
  expect(currentOf(slot)).toBeUndefined();
  expect(tasksOf(slot, t0 + 1)).toEqual([]);
});

it("forgets a script's own channel that is not told of any more, and no other", () => {
  const slot = withForeign(active());
  expect(applyChanges(slot, disownChannel(slot, "script")).map(idOf)).toEqual(["a"]);
  expect(disownChannel(slot, "a").removed).toEqual([]);
});

it("renews ours at once when a script's own came after it, unless that is under way", () => {
  const slot = withForeign(active());
  expect(tasksOf(slot, t0 + 1)).toEqual([]);
  expect(tasksOf(applyChanges(slot, renewOvertaken(slot, t0 + 1)), t0 + 1)).toEqual([{ ask: "watch", id: "a" }]);
  expect(renewOvertaken(withForeign(renewing(t0 + 1)), t0 + 1).put).toEqual([]);
});
