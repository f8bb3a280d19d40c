import { describe, expect, test } from "vitest";
import { nextAttempt, type SchedulePosition } from "../../../../src/broker/deliveries/attempts/retry-schedule.ts";

const hour = 3_600_000;

/** All attempts of a delivery that always fails, in milliseconds from the first. */
function attempts(options: { readonly random: number; readonly retryAfterMs?: number }): number[] {
  const made = [0];
  for (let at: SchedulePosition & { readonly dueMs: number } = { step: 0, forMs: 0, dueMs: 0 }; ; ) {
    const next = nextAttempt({ retryAfterMs: undefined, ...at, ...options, nowMs: at.dueMs });
    if (next === undefined) return made;
    made.push(next.dueMs);
    at = next;
  }
}

describe("the schedule of a delivery", () => {
  test("is ten attempts over 75 hours and 35 minutes", () => {
    expect(attempts({ random: 0 }).map((ms) => ms / 1_000)).toEqual([
      0, 5, 305, 2_105, 9_305, 27_305, 63_305, 113_705, 185_705, 272_105,
    ]);
  });

  test("is never shorter than promised, and at most a fifth longer", () => {
    const last = (random: number) => (attempts({ random }).at(-1) ?? 0) / hour;
    expect(last(0)).toBeCloseTo(75.58, 1);
    expect(last(0.999_999)).toBeCloseTo(90.7, 1);
  });

  test("an application that asks for later is obeyed, up to a day", () => {
    const at = { step: 1, forMs: 0, nowMs: 1_000_000, random: 0 };
    expect(nextAttempt({ ...at, retryAfterMs: hour })).toMatchObject({ step: 2, dueMs: 1_000_000 + hour });
    expect(nextAttempt({ ...at, retryAfterMs: 1e12 })).toMatchObject({ dueMs: 1_000_000 + 24 * hour });
  });

  test("one that asks for earlier, again and again, uses none of the schedule up", () => {
    const all = attempts({ random: 0, retryAfterMs: 60_000 });
    expect((all.at(-1) ?? 0) / hour).toBeGreaterThanOrEqual(75);
    expect(all.length).toBeGreaterThan(4_000);
  });

  test("a second is the least that is waited", () => {
    const at = { step: 1, forMs: 10_000, nowMs: 0, random: 0 };
    expect(nextAttempt({ ...at, retryAfterMs: 0 })).toEqual({ step: 1, forMs: 10_000, dueMs: 1_000 });
  });
});
