import { describe, expect, test } from "vitest";
import { createDestinationQueues, type StartedDelivery } from "../../../../src/broker/deliveries/delivery-queues.ts";
import type { QueuedForward } from "../../../../src/broker/deliveries/outbox.ts";
import { StoredForward_Address as Address } from "../../../../src/gen/latchkey/stored/v1/stored_pb.ts";

let made = 0;
function waiting(about: Partial<QueuedForward> = {}): QueuedForward {
  made += 1;
  const id = `msg_${made}`;
  return {
    name: `dev\0${about.id ?? id}`,
    environment: "dev",
    id,
    dueMs: 0,
    sinceMs: 0,
    createdMs: made,
    address: Address.PRIMARY,
    overrideUrl: "",
    lane: "",
    number: "",
    first: true,
    ...about,
  };
}

const to = (overrideUrl: string, about: Partial<QueuedForward> = {}): QueuedForward =>
  waiting({ address: Address.OVERRIDE, overrideUrl, ...about });

function linesOf({ perLine = 2, most = 1_000, held = new Set<string>() } = {}) {
  const isHeld = ({ overrideUrl }: Pick<QueuedForward, "overrideUrl">) => held.has(overrideUrl);
  const lines = createDestinationQueues({ perLine: () => perLine, most, isHeld });
  /** All that can be begun now. */
  function begin(nowMs = 1_000): StartedDelivery[] {
    const all: StartedDelivery[] = [];
    for (let one = lines.next(nowMs); one !== undefined; one = lines.next(nowMs)) all.push(one);
    return all;
  }
  function endAll(begun: readonly StartedDelivery[], wentWell = true): void {
    for (const one of begun) {
      if (wentWell) lines.remove(one.waiting);
      lines.ended(one, wentWell);
    }
  }
  return { lines, begin, endAll, ids: (nowMs?: number) => begin(nowMs).map(({ waiting: { id } }) => id) };
}

describe("delivery lines", () => {
  test("no more are under way to a destination than it may have, and others are not held up by that", () => {
    const { lines, begin } = linesOf();
    for (let i = 0; i < 10; i += 1) lines.put(to("slow"), 1_000);
    lines.put(to("fast"), 1_000);
    const begun = begin();
    expect(begun.map(({ waiting: one }) => one.overrideUrl).toSorted()).toEqual(["fast", "slow", "slow"]);
    const [first] = begun;
    if (first === undefined) throw new Error("nothing was begun");
    lines.remove(first.waiting);
    lines.ended(first, true);
    expect(begin()).toHaveLength(1);
  });

  test("a destination that fails is tried one at a time, until it succeeds again", () => {
    const { lines, begin } = linesOf({ perLine: 8 });
    for (let i = 0; i < 100; i += 1) lines.put(waiting(), 1_000);
    for (let round = 0; round < 3; round += 1) {
      for (const one of begin()) {
        lines.remove(one.waiting);
        lines.ended(one, false);
      }
    }
    let all = begin();
    expect(all).toHaveLength(1);
    for (const expected of [2, 4, 8, 8]) {
      for (const one of all) {
        lines.remove(one.waiting);
        lines.ended(one, true);
      }
      all = begin();
      expect(all).toHaveLength(expected);
    }
  });

  test("first attempts of a lane are made one after another, by number, whatever order they came in", () => {
    const { lines, begin, endAll } = linesOf({ perLine: 100 });
    const numbers = ["10", "7", "18446744073709551616", "9", "8"];
    for (const number of numbers) lines.put(waiting({ lane: "a", number, id: number }), 1_000);
    const order: string[] = [];
    for (let begun = begin(); begun.length > 0; begun = begin()) {
      expect(begun).toHaveLength(1);
      order.push(...begun.map((one) => one.waiting.id));
      endAll(begun);
    }
    expect(order).toEqual(["7", "8", "9", "10", "18446744073709551616"]);
  });

  test("those without a number begin as they were made", () => {
    const { lines, begin, endAll } = linesOf({ perLine: 100 });
    lines.put(waiting({ lane: "a", number: "abc", id: "second", createdMs: 2 }), 1_000);
    lines.put(waiting({ lane: "a", number: "", id: "first", createdMs: 1 }), 1_000);
    const first = begin();
    expect(first.map((one) => one.waiting.id)).toEqual(["first"]);
    endAll(first);
    expect(begin().map((one) => one.waiting.id)).toEqual(["second"]);
  });

  test("a lane goes on when its first is gone, or failed and is tried again later", () => {
    const { lines, begin, endAll } = linesOf({ perLine: 100 });
    const [gone, failing, last] = ["1", "2", "3"].map((number) => waiting({ lane: "a", number, id: number }));
    if (gone === undefined || failing === undefined || last === undefined) throw new Error("three were made");
    for (const one of [gone, failing, last]) lines.put(one, 1_000);
    lines.remove(gone);
    const second = begin();
    expect(second.map((one) => one.waiting.id)).toEqual(["2"]);
    lines.put({ ...failing, first: false, dueMs: 6_000 }, 1_000);
    endAll(second, false);
    expect(begin().map((one) => one.waiting.id)).toEqual(["3"]);
    expect(begin(6_000).map((one) => one.waiting.id)).toEqual(["2"]);
  });

  test("other lanes of a destination do not wait for one that is under way", () => {
    const { lines, ids } = linesOf({ perLine: 100 });
    for (const lane of ["a", "b", "c"]) for (const n of [1, 2]) lines.put(waiting({ lane, id: `${lane}${n}` }), 1_000);
    expect(ids()).toEqual(["a1", "b1", "c1"]);
  });

  test("what is not due yet is not begun", () => {
    const { lines, ids } = linesOf();
    lines.put(waiting({ id: "later", dueMs: 5_000 }), 1_000);
    expect(ids(4_999)).toEqual([]);
    expect(ids(5_000)).toEqual(["later"]);
  });

  test("one that is replayed while it waits is due at once, and begun once", () => {
    const { lines, ids } = linesOf();
    lines.put(waiting({ id: "one", dueMs: 50_000, first: false }), 1_000);
    lines.put(waiting({ id: "one", dueMs: 1_000, first: false }), 1_000);
    expect(ids()).toEqual(["one"]);
    expect(ids(60_000)).toEqual([]);
  });

  test("one that changes while it is under way is begun again only when that has ended", () => {
    const { lines, begin, ids } = linesOf();
    lines.put(waiting({ id: "one" }), 1_000);
    const [begun] = begin();
    lines.put(waiting({ id: "one", dueMs: 1_000, first: false }), 1_000);
    expect(ids()).toEqual([]);
    if (begun === undefined) throw new Error("it was not begun");
    lines.ended(begun, false);
    expect(ids()).toEqual(["one"]);
  });

  test("what is removed is not begun", () => {
    const { lines, ids } = linesOf();
    const [one, other] = [waiting(), waiting({ dueMs: 2_000 })];
    for (const each of [one, other]) lines.put(each, 1_000);
    for (const each of [one, other]) lines.remove(each);
    expect(ids(10_000)).toEqual([]);
  });

  test("a held destination begins nothing until it is looked at again", () => {
    const held = new Set(["gone"]);
    const { lines, ids } = linesOf({ held });
    lines.put(to("gone", { id: "one" }), 1_000);
    expect(ids()).toEqual([]);
    held.clear();
    lines.look();
    expect(ids()).toEqual(["one"]);
  });

  test("those tried again and those that just came both get their turns", () => {
    const { lines, ids } = linesOf({ perLine: 10 });
    for (let i = 0; i < 20; i += 1) lines.put(waiting({ id: `again ${i}`, first: false }), 1_000);
    for (let i = 0; i < 20; i += 1) lines.put(waiting({ id: `new ${i}` }), 1_000);
    const begun = ids();
    expect(begun.filter((id) => id.startsWith("new"))).toHaveLength(8);
    expect(begun.filter((id) => id.startsWith("again"))).toHaveLength(2);
  });

  test("half of all places are not for destinations that fail, and there a new one has one", () => {
    const { lines, begin, endAll } = linesOf({ perLine: 8, most: 20 });
    const dead = Array.from({ length: 30 }, (_, i) => `dead ${i}`);
    for (const url of dead) for (let i = 0; i < 8; i += 1) lines.put(to(url), 1_000);
    // New ones all of them: each has one, until no place is left.
    const first = begin();
    expect(first).toHaveLength(20);
    expect(new Set(first.map(({ waiting: one }) => one.overrideUrl)).size).toBe(20);
    for (const one of first) lines.ended(one, false);
    // The others have theirs then, beside half of those that have failed.
    const second = begin();
    expect(second).toHaveLength(20);
    expect(new Set([...first, ...second].map(({ waiting: one }) => one.overrideUrl))).toEqual(new Set(dead));
    for (const one of second) lines.ended(one, false);
    // All of them have failed: from now on half of the places is all that they have.
    const failing = begin();
    expect(failing).toHaveLength(10);
    for (let i = 0; i < 8; i += 1) lines.put(to("alive"), 1_000);
    const one = begin();
    expect(one.map(({ waiting: { overrideUrl } }) => overrideUrl)).toEqual(["alive"]);
    endAll(one);
    expect(begin().map(({ waiting: { overrideUrl } }) => overrideUrl)).toEqual(["alive", "alive"]);
    // And each of them has its turn, in a place that one of them leaves.
    const tried = new Set<string>();
    for (let [ended] = failing; ended !== undefined && tried.size < 30; ) {
      lines.ended(ended, false);
      [ended] = begin();
      tried.add(ended?.waiting.overrideUrl ?? "");
    }
    expect(tried).toEqual(new Set(dead));
  });

  test("what is under way when all is let go of is not begun again when it comes back, and counts meanwhile", () => {
    const { lines, begin, ids } = linesOf();
    const all = [waiting(), waiting(), waiting()];
    for (const one of all) lines.put(one, 1_000);
    const [first, second] = begin();
    lines.clear();
    expect(ids()).toEqual([]);
    for (const one of all) lines.put(one, 1_000);
    expect(ids()).toEqual([]);
    if (first === undefined || second === undefined) throw new Error("two are begun");
    lines.remove(first.waiting);
    lines.ended(first, true);
    expect(ids()).toEqual([all[2]?.id]);
    lines.ended(second, true);
    expect(ids()).toEqual([second.waiting.id]);
  });
});
