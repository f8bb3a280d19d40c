import { describe, expect, test } from "vitest";
import type { QueuedForward } from "../../../../src/broker/deliveries/outbox/queued-forward.ts";
import {
  createDestinationQueues,
  type StartedDelivery,
} from "../../../../src/broker/deliveries/queues/delivery-queues.ts";
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
    orderKey: "",
    number: "",
    partition: 0,
    first: true,
    ...about,
  };
}

const to = (overrideUrl: string, about: Partial<QueuedForward> = {}): QueuedForward =>
  waiting({ address: Address.OVERRIDE, overrideUrl, ...about });

function queuesOf({ perDestination = 2, most = 1_000, paused = new Set<string>() } = {}) {
  const isPaused = ({ overrideUrl }: Pick<QueuedForward, "overrideUrl">) => paused.has(overrideUrl);
  const queues = createDestinationQueues({ mostPerDestination: () => perDestination, most, isPaused });
  /** Starts every delivery that may start now. */
  function begin(nowMs = 1_000): StartedDelivery[] {
    const all: StartedDelivery[] = [];
    for (let one = queues.next(nowMs); one !== undefined; one = queues.next(nowMs)) all.push(one);
    return all;
  }
  function endAll(begun: readonly StartedDelivery[], wentWell = true): void {
    for (const one of begun) {
      if (wentWell) queues.remove(one.waiting);
      queues.ended(one, wentWell);
    }
  }
  return { queues, begin, endAll, ids: (nowMs?: number) => begin(nowMs).map(({ waiting: { id } }) => id) };
}

describe("delivery queues", () => {
  test("no more are under way to a destination than it may have, and others are not held up by that", () => {
    const { queues, begin } = queuesOf();
    for (let i = 0; i < 10; i += 1) queues.put(to("slow"), 1_000);
    queues.put(to("fast"), 1_000);
    const begun = begin();
    expect(begun.map(({ waiting: one }) => one.overrideUrl).toSorted()).toEqual(["fast", "slow", "slow"]);
    const [first] = begun;
    if (first === undefined) throw new Error("nothing was begun");
    queues.remove(first.waiting);
    queues.ended(first, true);
    expect(begin()).toHaveLength(1);
  });

  test("a destination that fails is tried one at a time, until it succeeds again", () => {
    const { queues, begin } = queuesOf({ perDestination: 8 });
    for (let i = 0; i < 100; i += 1) queues.put(waiting(), 1_000);
    for (let round = 0; round < 3; round += 1) {
      for (const one of begin()) {
        queues.remove(one.waiting);
        queues.ended(one, false);
      }
    }
    let all = begin();
    expect(all).toHaveLength(1);
    for (const expected of [2, 4, 8, 8]) {
      for (const one of all) {
        queues.remove(one.waiting);
        queues.ended(one, true);
      }
      all = begin();
      expect(all).toHaveLength(expected);
    }
  });

  test("first attempts with one order key run one after another, by number, in any order of arrival", () => {
    const { queues, begin, endAll } = queuesOf({ perDestination: 100 });
    const numbers = ["10", "7", "18446744073709551616", "9", "8"];
    for (const number of numbers) queues.put(waiting({ orderKey: "a", number, id: number }), 1_000);
    const order: string[] = [];
    for (let begun = begin(); begun.length > 0; begun = begin()) {
      expect(begun).toHaveLength(1);
      order.push(...begun.map((one) => one.waiting.id));
      endAll(begun);
    }
    expect(order).toEqual(["7", "8", "9", "10", "18446744073709551616"]);
  });

  test("deliveries without a number start in the order of their creation", () => {
    const { queues, begin, endAll } = queuesOf({ perDestination: 100 });
    queues.put(waiting({ orderKey: "a", number: "abc", id: "second", createdMs: 2 }), 1_000);
    queues.put(waiting({ orderKey: "a", number: "", id: "first", createdMs: 1 }), 1_000);
    const first = begin();
    expect(first.map((one) => one.waiting.id)).toEqual(["first"]);
    endAll(first);
    expect(begin().map((one) => one.waiting.id)).toEqual(["second"]);
  });

  test("the next with an order key starts when the first is gone, or failed and is retried later", () => {
    const { queues, begin, endAll } = queuesOf({ perDestination: 100 });
    const [gone, failing, last] = ["1", "2", "3"].map((number) => waiting({ orderKey: "a", number, id: number }));
    if (gone === undefined || failing === undefined || last === undefined) throw new Error("three were made");
    for (const one of [gone, failing, last]) queues.put(one, 1_000);
    queues.remove(gone);
    const second = begin();
    expect(second.map((one) => one.waiting.id)).toEqual(["2"]);
    queues.put({ ...failing, first: false, dueMs: 6_000 }, 1_000);
    endAll(second, false);
    expect(begin().map((one) => one.waiting.id)).toEqual(["3"]);
    expect(begin(6_000).map((one) => one.waiting.id)).toEqual(["2"]);
  });

  test("deliveries with other order keys do not wait for a running attempt", () => {
    const { queues, ids } = queuesOf({ perDestination: 100 });
    for (const orderKey of ["a", "b", "c"]) {
      for (const n of [1, 2]) queues.put(waiting({ orderKey, id: `${orderKey}${n}` }), 1_000);
    }
    expect(ids()).toEqual(["a1", "b1", "c1"]);
  });

  test("a delivery that is not due is not started", () => {
    const { queues, ids } = queuesOf();
    queues.put(waiting({ id: "later", dueMs: 5_000 }), 1_000);
    expect(ids(4_999)).toEqual([]);
    expect(ids(5_000)).toEqual(["later"]);
  });

  test("a waiting delivery that is replayed is due at once, and started once", () => {
    const { queues, ids } = queuesOf();
    queues.put(waiting({ id: "one", dueMs: 50_000, first: false }), 1_000);
    queues.put(waiting({ id: "one", dueMs: 1_000, first: false }), 1_000);
    expect(ids()).toEqual(["one"]);
    expect(ids(60_000)).toEqual([]);
  });

  test("a delivery that changes during an attempt is started again only after it", () => {
    const { queues, begin, ids } = queuesOf();
    queues.put(waiting({ id: "one" }), 1_000);
    const [begun] = begin();
    queues.put(waiting({ id: "one", dueMs: 1_000, first: false }), 1_000);
    expect(ids()).toEqual([]);
    if (begun === undefined) throw new Error("it was not begun");
    queues.ended(begun, false);
    expect(ids()).toEqual(["one"]);
  });

  test("a removed delivery is not started", () => {
    const { queues, ids } = queuesOf();
    const [one, other] = [waiting(), waiting({ dueMs: 2_000 })];
    for (const each of [one, other]) queues.put(each, 1_000);
    for (const each of [one, other]) queues.remove(each);
    expect(ids(10_000)).toEqual([]);
  });

  test("a paused destination starts nothing until it is checked again", () => {
    const paused = new Set(["gone"]);
    const { queues, ids } = queuesOf({ paused });
    queues.put(to("gone", { id: "one" }), 1_000);
    expect(ids()).toEqual([]);
    paused.clear();
    queues.checkAll();
    expect(ids()).toEqual(["one"]);
  });

  test("retried and new deliveries both get their turns", () => {
    const { queues, ids } = queuesOf({ perDestination: 10 });
    for (let i = 0; i < 20; i += 1) queues.put(waiting({ id: `again ${i}`, first: false }), 1_000);
    for (let i = 0; i < 20; i += 1) queues.put(waiting({ id: `new ${i}` }), 1_000);
    const begun = ids();
    expect(begun.filter((id) => id.startsWith("new"))).toHaveLength(8);
    expect(begun.filter((id) => id.startsWith("again"))).toHaveLength(2);
  });

  test("half of all places are not for destinations that fail, and there a new one has one", () => {
    const { queues, begin, endAll } = queuesOf({ perDestination: 8, most: 20 });
    const dead = Array.from({ length: 30 }, (_, i) => `dead ${i}`);
    for (const url of dead) for (let i = 0; i < 8; i += 1) queues.put(to(url), 1_000);
    // All are new: each gets one slot, until all slots are taken.
    const first = begin();
    expect(first).toHaveLength(20);
    expect(new Set(first.map(({ waiting: one }) => one.overrideUrl)).size).toBe(20);
    for (const one of first) queues.ended(one, false);
    // Then the others get theirs, beside half of those that have failed.
    const second = begin();
    expect(second).toHaveLength(20);
    expect(new Set([...first, ...second].map(({ waiting: one }) => one.overrideUrl))).toEqual(new Set(dead));
    for (const one of second) queues.ended(one, false);
    // All have failed: from now on they share half of the slots.
    const failing = begin();
    expect(failing).toHaveLength(10);
    for (let i = 0; i < 8; i += 1) queues.put(to("alive"), 1_000);
    const one = begin();
    expect(one.map(({ waiting: { overrideUrl } }) => overrideUrl)).toEqual(["alive"]);
    endAll(one);
    expect(begin().map(({ waiting: { overrideUrl } }) => overrideUrl)).toEqual(["alive", "alive"]);
    // Each of them gets a slot that another one frees.
    const tried = new Set<string>();
    for (let [ended] = failing; ended !== undefined && tried.size < 30; ) {
      queues.ended(ended, false);
      [ended] = begin();
      tried.add(ended?.waiting.overrideUrl ?? "");
    }
    expect(tried).toEqual(new Set(dead));
  });

  test("attempts in progress at a reset are not started again, and still count", () => {
    const { queues, begin, ids } = queuesOf();
    const all = [waiting(), waiting(), waiting()];
    for (const one of all) queues.put(one, 1_000);
    const [first, second] = begin();
    queues.retain(() => false);
    expect(ids()).toEqual([]);
    for (const one of all) queues.put(one, 1_000);
    expect(ids()).toEqual([]);
    if (first === undefined || second === undefined) throw new Error("two are begun");
    queues.remove(first.waiting);
    queues.ended(first, true);
    expect(ids()).toEqual([all[2]?.id]);
    queues.ended(second, true);
    expect(ids()).toEqual([second.waiting.id]);
  });

  test("what another replica delivers now is dropped, and the rest keeps its order", () => {
    const { queues, begin, ids } = queuesOf({ perDestination: 1 });
    const inPartition = (partition: number, about: Partial<QueuedForward> = {}) => waiting({ partition, ...about });
    const all = [
      inPartition(1, { orderKey: "a" }),
      inPartition(2, { orderKey: "b" }),
      inPartition(1, { orderKey: "a" }),
      inPartition(2, { orderKey: "b" }),
      inPartition(1, { first: false, dueMs: 2_000, sinceMs: 1_000 }),
      inPartition(2, { first: false, dueMs: 3_000, sinceMs: 1_000 }),
    ];
    for (const one of all) queues.put(one, 1_000);
    const [running] = begin();
    expect(running?.waiting).toBe(all[0]);
    queues.retain(({ partition }) => partition === 2);
    if (running === undefined) throw new Error("one is begun");
    queues.ended(running, false);
    for (const expected of [all[1], all[3]]) {
      const [next] = begin();
      expect(next?.waiting).toBe(expected);
      if (next === undefined) throw new Error("one is begun");
      queues.remove(next.waiting);
      queues.ended(next, true);
    }
    expect(ids(2_500)).toEqual([]);
    expect(ids(3_500)).toEqual([all[5]?.id]);
  });

  test("a lower limit holds for known destinations too", () => {
    let perDestination = 4;
    const queues = createDestinationQueues({
      mostPerDestination: () => perDestination,
      most: 8,
      isPaused: () => false,
    });
    for (let i = 0; i < 8; i += 1) queues.put(to("one"), 1_000);
    const begun = [queues.next(1_000), queues.next(1_000)];
    perDestination = 2;
    expect(queues.next(1_000)).toBeUndefined();
    for (const one of begun) {
      if (one === undefined) throw new Error("two are begun");
      queues.remove(one.waiting);
      queues.ended(one, true);
    }
    expect([queues.next(1_000), queues.next(1_000), queues.next(1_000)].filter(Boolean)).toHaveLength(2);
  });
});
