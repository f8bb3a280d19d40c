import { expect, it } from "vitest";
import { recordNotMade } from "../../../../../src/broker/channels/rules/making.ts";
import { applyChanges } from "../../../../../src/broker/channels/rules/move.ts";
import { expiresAtMs, idOf, stateOf } from "../../../../../src/broker/channels/rules/slot.ts";
import { Channel_State as State } from "../../../../../src/gen/latchkey/v1/channel_pb.ts";
import { active, ask, dayMs, lifeMs, never, renewing, t0 } from "../../../core/calendar-slot.ts";

it.each([
  [0, 0.8],
  [0.999_999, 0.85],
])("a channel is renewed between 80 and 85 % of its lifetime at the provider (%d)", (random, share) => {
  const [one] = active(random);
  expect(((one?.dueMs ?? 0) - t0) / lifeMs).toBeCloseTo(share, 4);
});

it("C04 a failed renewal leaves a channel alone, and is reported once when less than a tenth of its lifetime is left", () => {
  let slot = active();
  const told: string[] = [];
  for (let now = t0 + 0.83 * lifeMs, n = 0; now < t0 + lifeMs; n += 1) {
    slot = ask(slot, "a", `n${n}`, now);
    const moved = recordNotMade(
      slot,
      `n${n}`,
      { kind: "put_off", code: "status_429", newId: "x" },
      { nowMs: now, random: 1 },
    );
    slot = applyChanges(slot, moved);
    const [old] = slot;
    expect(slot).toHaveLength(1);
    expect([idOf(old ?? never()), stateOf(old ?? never()), expiresAtMs(old ?? never())]).toEqual([
      "a",
      State.ACTIVE,
      t0 + lifeMs,
    ]);
    expect((old?.dueMs ?? 0) - now).toBeLessThanOrEqual(1.25 * 3_600_000);
    expect(old?.dueMs ?? 0).toBeGreaterThan(now);
    for (const { kind } of moved.notices) {
      told.push(kind);
      expect(now).toBeGreaterThan(t0 + 0.9 * lifeMs);
    }
    now = old?.dueMs ?? now;
  }
  expect(told).toEqual(["renewal_failed"]);
});

it("a channel waits as long as the provider demands, but not beyond its expiry", () => {
  const now = t0 + 6 * dayMs;
  const slot = renewing(now);
  const outcome = { kind: "put_off" as const, code: "status_429", newId: "x" };
  const later = recordNotMade(slot, "b", { ...outcome, retryAfterMs: 7_200_000 }, { nowMs: now, random: 0 });
  expect(later.put[0]?.dueMs).toBe(now + 7_200_000);
  const tooLate = recordNotMade(slot, "b", { ...outcome, retryAfterMs: 40 * dayMs }, { nowMs: now, random: 0 });
  expect(tooLate.put[0]?.dueMs).toBe(t0 + lifeMs);
});
