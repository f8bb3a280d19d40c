import { expect, it } from "vitest";
import { adoptChannel, disownChannel, renewOvertaken } from "../../../../../src/broker/channels/rules/foreign.ts";
import { applyChanges } from "../../../../../src/broker/channels/rules/move.ts";
import { currentOf, idOf, type Slot } from "../../../../../src/broker/channels/rules/slot.ts";
import { tasksOf } from "../../../../../src/broker/channels/rules/tasks.ts";
import { active, place, renewing, t0 } from "../../../core/calendar-slot.ts";

const withForeign = (slot: Slot): Slot =>
  applyChanges(slot, adoptChannel(slot, place, { id: "script", resourceId: "s" }, t0));

it("records a script's own channel once, and sends its provider nothing", () => {
  const slot = withForeign(withForeign([]));
  expect(slot.map(idOf)).toEqual(["script"]);
  expect(currentOf(slot)).toBeUndefined();
  expect(tasksOf(slot, t0 + 1)).toEqual([]);
});

it("forgets a script's own channel that the metadata no longer name, and no other", () => {
  const slot = withForeign(active());
  expect(applyChanges(slot, disownChannel(slot, "script")).map(idOf)).toEqual(["a"]);
  expect(disownChannel(slot, "a").removed).toEqual([]);
});

it("renews latchkey's at once when a script's own followed it, unless a renewal is running", () => {
  const slot = withForeign(active());
  expect(tasksOf(slot, t0 + 1)).toEqual([]);
  expect(tasksOf(applyChanges(slot, renewOvertaken(slot, t0 + 1)), t0 + 1)).toEqual([{ ask: "watch", id: "a" }]);
  expect(renewOvertaken(withForeign(renewing(t0 + 1)), t0 + 1).put).toEqual([]);
});
