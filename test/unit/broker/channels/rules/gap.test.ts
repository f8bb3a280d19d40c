import { describe, expect, it } from "vitest";
import {
  firstWithinMs,
  graceMs,
  inheritRhythm,
  judgeLosses,
  type Loss,
  type LossEvidence,
  silenceMs,
  toVerify,
} from "../../../../../src/broker/channels/rules/gap.ts";
import type { ChannelRhythm } from "../../../../../src/gen/latchkey/stored/v1/stored_pb.ts";
import { seeded } from "../../../../support/runner/seeded.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
const t0 = 1_800_000_000_000;

/** A channel that receives messages and is scanned. */
function channel({ isSequential = true, isAnnounced = true, sinceMs = 0 } = {}) {
  const came = new Set<bigint>();
  const told: Loss["code"][] = [];
  let nowMs = t0;
  let last: LossEvidence["last"];
  let rhythm: ChannelRhythm | undefined;
  return {
    told,
    rhythm: () => rhythm,
    inherit(from: ChannelRhythm | undefined) {
      rhythm = from === undefined ? undefined : inheritRhythm(from, nowMs);
    },
    pass(ms: number) {
      nowMs += ms;
    },
    comes(...numbers: readonly number[]) {
      for (const number of numbers) {
        // A repeated message is known and causes no write.
        if (came.has(BigInt(number))) continue;
        came.add(BigInt(number));
        last = { number: String(number), atMs: nowMs };
      }
    },
    /** Forgets the received messages, as after a week. */
    forget: () => came.clear(),
    look() {
      const arrived = new Set(toVerify(rhythm, last).filter((number) => came.has(number)));
      const { after, losses } = judgeLosses(rhythm, {
        ...{ nowMs, listeningSinceMs: sinceMs, last, isSequential, arrived, isAnnounced },
      });
      rhythm = after;
      told.push(...losses.map(({ code }) => code));
      return losses.length;
    },
  };
}

describe("of a channel whose numbers are without gaps", () => {
  it("a jump is a loss once the missing messages stay away for a while, and is reported once", () => {
    const one = channel();
    one.comes(1, 2);
    one.look();
    one.comes(5);
    expect(one.look()).toBe(0);
    one.pass(graceMs - 1);
    expect(one.look()).toBe(0);
    one.pass(1);
    one.look();
    expect(one.told).toEqual(["numbers_missing"]);
    for (let i = 0; i < 50; i += 1) {
      one.pass(graceMs);
      one.comes(6 + i);
      one.look();
    }
    expect(one.told).toEqual(["numbers_missing"]);
    one.comes(60);
    one.look();
    one.pass(graceMs);
    one.look();
    expect(one.told).toEqual(["numbers_missing", "numbers_missing"]);
  });

  it("a late, reordered or repeated message is no loss", () => {
    const one = channel();
    one.comes(1, 4);
    one.look();
    one.pass(graceMs - 1);
    one.comes(3, 3, 2, 4);
    one.look();
    one.pass(2 * graceMs);
    one.look();
    expect(one.told).toEqual([]);
  });

  it("the first message is no loss, whatever its number, nor the first after a week", () => {
    const one = channel();
    one.comes(918);
    one.look();
    one.pass(dayMs);
    one.look();
    one.forget();
    one.comes(950);
    one.look();
    one.pass(dayMs);
    one.look();
    expect(one.told).toEqual([]);
  });

  it("a jump by a million is one loss", () => {
    const one = channel();
    one.comes(1);
    one.look();
    one.comes(1_000_001);
    for (let i = 0; i < 10; i += 1) {
      one.look();
      one.pass(graceMs);
    }
    expect(one.told).toEqual(["numbers_missing"]);
  });

  it("a thousand between two looks are none", () => {
    const one = channel();
    one.comes(1);
    one.look();
    one.comes(...Array.from({ length: 1_800 }, (_, i) => i + 2));
    for (let i = 0; i < 10; i += 1) {
      one.look();
      one.pass(graceMs);
    }
    expect([one.told, one.rhythm()?.settled]).toEqual([[], 1_801n]);
  });
});

describe("of a channel whose numbers merely grow", () => {
  it("a jump is no loss", () => {
    const one = channel({ isSequential: false });
    for (const number of [1, 2, 90, 1_000]) {
      one.comes(number);
      one.look();
      one.pass(graceMs);
    }
    expect(one.told).toEqual([]);
  });

  it("a late message is no loss, and continuing from a lower number is one, once", () => {
    const one = channel({ isSequential: false });
    one.comes(10);
    one.look();
    one.comes(7);
    one.look();
    one.pass(dayMs);
    one.look();
    one.comes(11);
    one.look();
    expect(one.told).toEqual([]);
    one.comes(1);
    one.look();
    one.pass(graceMs);
    one.comes(2);
    one.look();
    one.comes(3);
    one.look();
    one.pass(graceMs);
    one.comes(4);
    one.look();
    expect(one.told).toEqual(["numbers_restarted"]);
  });

  it.each(["", "abc", "-1", "1.5", "99999999999999999999"])("an invalid number reports nothing: %s", (number) => {
    const last = { number, atMs: t0 };
    const look = { nowMs: t0, listeningSinceMs: 0, last, isSequential: true, arrived: new Set<bigint>() };
    expect(judgeLosses(undefined, { ...look, isAnnounced: true })).toMatchObject({
      losses: [],
      after: { highest: 0n },
    });
  });
});

describe("a channel falls silent", () => {
  const every = (one: ReturnType<typeof channel>, ms: number, times: number) => {
    for (let i = 0; i < times; i += 1) {
      one.comes(i + 1);
      one.look();
      one.pass(ms);
    }
  };

  it("after many times its longest pause, reported once until the next message", () => {
    const one = channel();
    every(one, hourMs, 12);
    one.pass(3.9 * hourMs);
    expect(one.look()).toBe(0);
    one.pass(0.2 * hourMs);
    expect(one.look()).toBe(1);
    one.pass(dayMs);
    expect(one.look()).toBe(0);
    one.comes(13);
    expect(one.look()).toBe(0);
    // The pause has become longer by that.
    one.pass(5 * dayMs);
    expect(one.look()).toBe(0);
    one.pass(2 * dayMs);
    one.look();
    expect(one.told).toEqual(["beyond_its_rhythm", "beyond_its_rhythm"]);
  });

  it("never while it has no rhythm, nor within an hour, nor by a burst", () => {
    const few = channel();
    every(few, hourMs, 8);
    few.pass(20 * dayMs);
    expect(few.look()).toBe(0);
    const often = channel();
    every(often, 1_000, 1_000);
    often.pass(59 * minuteMs);
    expect(often.look()).toBe(0);
    const burst = channel();
    every(burst, dayMs, 12);
    every(burst, 1_000, 2_000);
    burst.pass(4 * dayMs);
    expect(burst.look()).toBe(0);
    expect(silenceMs({ pauseMs: 7 * dayMs, pauses: 100 })).toBe(Number.POSITIVE_INFINITY);
  });

  it("not over a weekend, for a calendar of the working week", () => {
    const one = channel();
    for (let day = 0; day < 28; day += 1) {
      const isWorkday = day % 7 < 5;
      for (let hour = 0; hour < 24; hour += 1) {
        if (isWorkday && hour >= 9 && hour < 17) one.comes(day * 24 + hour + 1);
        one.look();
        one.pass(hourMs);
      }
    }
    expect(one.told.filter((code) => code === "beyond_its_rhythm")).toEqual([]);
  });

  it("not for the time in which latchkey was not running", () => {
    const one = channel({ sinceMs: t0 + 30 * dayMs });
    every(one, hourMs, 12);
    one.pass(29.6 * dayMs);
    expect(one.look()).toBe(0);
    one.pass(dayMs);
    expect(one.look()).toBe(1);
  });

  it("from its creation, if it was announced and nothing came", () => {
    const one = channel();
    one.look();
    one.pass(firstWithinMs);
    expect(one.look()).toBe(0);
    one.pass(1);
    expect(one.look()).toBe(1);
    one.pass(dayMs);
    const heir = channel();
    heir.inherit(one.rhythm());
    heir.pass(dayMs);
    expect([one.look(), heir.look(), one.told]).toEqual([0, 0, ["never_heard"]]);
    const unannounced = channel({ isAnnounced: false });
    unannounced.look();
    unannounced.pass(dayMs);
    expect(unannounced.look()).toBe(0);
  });

  it("at the rhythm of the channel that it replaced", () => {
    const old = channel();
    every(old, hourMs, 12);
    const heir = channel();
    heir.inherit(old.rhythm());
    heir.comes(1);
    heir.look();
    heir.pass(5.1 * hourMs);
    expect(heir.look()).toBe(1);
  });
});

const schedules = 3_000;

it(`reports exactly the losses, in ${schedules} schedules of late, repeated and lost messages`, () => {
  let lost = 0;
  let kept = 0;
  for (let seed = 1; seed <= schedules; seed += 1) {
    const random = seeded(seed);
    const one = channel({ isAnnounced: false });
    const loses = random() < 0.5;
    const waiting: { readonly number: number; readonly at: number }[] = [];
    const gone: number[] = [];
    let number = 0;
    let now = 0;
    for (let step = 0; step < 120; step += 1) {
      const fate = random();
      // The last message is never lost: no later one would reveal the gap.
      if (fate < 0.5) {
        number += 1;
        const isLost = loses && number > 1 && random() < 0.1;
        if (isLost) gone.push(number);
        else waiting.push({ number, at: now + random() * 0.9 * (graceMs - 2 * minuteMs) });
        if (!isLost && random() < 0.2) waiting.push({ number, at: now + random() * 2 * graceMs });
      }
      const ready = waiting.filter(({ at }) => at <= now);
      for (const message of ready) {
        one.comes(message.number);
        waiting.splice(waiting.indexOf(message), 1);
      }
      if (random() < 0.6) one.look();
      one.pass(minuteMs);
      now += minuteMs;
    }
    one.comes(...waiting.map((message) => message.number), number + 1);
    for (let i = 0; i < 10; i += 1) {
      one.look();
      one.pass(graceMs);
    }
    const isTold = one.told.includes("numbers_missing");
    // Losses before the first scan go unnoticed if the first message itself is known.
    expect(isTold, `schedule ${seed}: ${gone.join(" ")} were lost`).toBe(gone.length > 0);
    expect(one.told.length, `schedule ${seed}: no loss twice`).toBeLessThanOrEqual(gone.length);
    const told = one.told.length;
    for (let i = 0; i < 5; i += 1) {
      one.comes(number + 2 + i);
      one.look();
      one.pass(graceMs);
    }
    expect(one.told.length, `schedule ${seed}: and none later`).toBe(told);
    lost += isTold ? 1 : 0;
    kept += isTold ? 0 : 1;
  }
  expect([lost > 1_000, kept > 1_000]).toEqual([true, true]);
});
