import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createAgenda, type NewTask } from "../../src/store/agenda.ts";
import { type Backend, StaleWrite, type Store } from "../../src/store/contract.ts";
import { createLeases, LeaseLost } from "../../src/store/leases.ts";
import type { Ground } from "./conformance.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

interface SharedGround extends Ground {
  /** A second replica on the same ground; of a store that one process has for itself, the same one. */
  openAnother(first: Backend): Promise<Backend>;
}

/** What is written once above the contract must hold on every backend. */
export function carries(name: string, prepare: () => Promise<SharedGround>): void {
  describe(`above the ${name} store`, () => {
    let ground: SharedGround;
    let one: Backend;
    let other: Backend;
    beforeEach(async () => {
      ground = await prepare();
      one = await ground.open();
      other = await ground.openAnother(one);
    });
    afterEach(async () => {
      await other.close();
      await one.close();
      await ground.clear();
    });

    it("whoever watches has been told of all that was committed, by whomever, once it is caught up", async () => {
      const told = new Set<string>();
      await other.watch(other.status().revision, {
        onCommit: ({ changes }) => {
          for (const { key } of changes) told.add(key);
        },
        onLost: () => expect.unreachable("nothing was lost"),
      });
      for (let i = 0; i < 20; i += 1) {
        await one.commit([{ key: `k${i}`, value: bytes("1") }]);
        // What it commits itself meanwhile is told in its place.
        const own = i % 2 === 0 ? other.commit([{ key: `own${i}`, value: bytes("1") }]) : undefined;
        await other.caughtUp();
        expect(told).toContain(`k${i}`);
        await own;
      }
      expect(told.size).toBe(30);
    });

    it("a lease is held by one at a time, and by the next once it was given back", async () => {
      const lease = await createLeases(one).take("x", 10_000);
      expect(await createLeases(other).take("x", 10_000)).toBeUndefined();
      expect(await createLeases(other).take("y", 10_000)).toBeDefined();
      expect(lease?.remainingMs()).toBeGreaterThan(5_000);
      await lease?.release();
      expect(await createLeases(other).take("x", 10_000)).toBeDefined();
    });

    it("a lease is taken by exactly one of many who try at once", async () => {
      const all = await Promise.all(
        Array.from({ length: 12 }, (_, i) => createLeases(i % 2 === 0 ? one : other).take("x", 10_000)),
      );
      expect(all.filter((lease) => lease !== undefined)).toHaveLength(1);
    });

    it("a lease is not taken away by one whose look at it came long after its look at the clock, or before", async () => {
      for (const slow of ["clock", "getMany"] as const) {
        const { promise: looked, resolve: onLooked } = Promise.withResolvers<void>();
        const { promise: goOn, resolve: letGoOn } = Promise.withResolvers<void>();
        const late = async <T>(answer: Promise<T>): Promise<T> => {
          const value = await answer;
          onLooked();
          await goOn;
          return value;
        };
        const slowly: Store = {
          ...other,
          clock: () => (slow === "clock" ? late(other.clock()) : other.clock()),
          getMany: (keys) => (slow === "getMany" ? late(other.getMany(keys)) : other.getMany(keys)),
        };
        const second = createLeases(slowly).take(`x ${slow}`, 10_000);
        await looked;
        await sleep(20);
        const first = await createLeases(one).take(`x ${slow}`, 10_000);
        letGoOn();
        expect([first === undefined, (await second) === undefined]).toEqual([false, true]);
      }
    });

    it("S17 a lease that ran out is another's, and what was done under it is refused", async () => {
      const late = await createLeases(one).take("x", 150);
      const untouched = await createLeases(one).take("y", 150);
      if (late === undefined || untouched === undefined) throw new Error("nobody has it");
      await sleep(250);
      expect(late.remainingMs()).toBe(0);
      const next = await createLeases(other).take("x", 10_000);
      expect(next).toBeDefined();
      await expect(one.commit([{ key: "late", value: bytes("1") }], [late.fence])).rejects.toBeInstanceOf(StaleWrite);
      await expect(late.renew()).rejects.toBeInstanceOf(LeaseLost);
      await late.release();
      expect(await createLeases(one).take("x", 10_000)).toBeUndefined();
      await other.commit([{ key: "in time", value: bytes("1") }], next === undefined ? [] : [next.fence]);
      expect(await other.getMany(["late", "in time"])).toMatchObject([undefined, { key: "in time" }]);
      // Nobody wanted the other one: what is finished late is still finished by the only one who had it.
      await expect(one.commit([{ key: "y", value: bytes("1") }], [untouched.fence])).resolves.toBeGreaterThan(0);
    });

    it("a lease that is renewed goes on, and its fence with it", async () => {
      // So long that a slow machine does not let it run out in between.
      const lease = await createLeases(one).take("x", 1_200);
      for (let i = 0; i < 5; i += 1) {
        await sleep(300);
        await lease?.renew();
        expect(await createLeases(other).take("x", 1_200)).toBeUndefined();
      }
      await one.commit([{ key: "k", value: bytes("1") }], lease === undefined ? [] : [lease.fence]);
    });

    const task = (lane: string, id: string, dueMs: number): NewTask => ({
      lane,
      id,
      errand: "forward",
      payload: bytes(`${lane}/${id}`),
      dueMs,
      createdMs: 1,
    });
    const everyTask = { fromMs: 0, toMs: 1e12, limit: 1_000 };

    it("a task is put down with its cause or not at all, and found when it is due", async () => {
      const agenda = createAgenda(one);
      const add = (name: NewTask, expect_?: number) =>
        one.commit([
          ...agenda.add(name),
          { key: "cause", value: bytes(name.id), ...(expect_ === undefined ? {} : { expect: expect_ }) },
        ]);
      await add(task("a", "1", 3_000));
      await add(task("b", "1", 1_000));
      await expect(add(task("c", "1", 2_000), 0)).rejects.toBeInstanceOf(StaleWrite);
      await add(task("b", "2", 2_000));
      const found = await createAgenda(other).due(everyTask);
      expect(found.map(({ lane, id }) => `${lane}${id}`)).toEqual(["b1", "b2", "a1"]);
      const span = await createAgenda(other).due({ fromMs: 2_000, toMs: 3_000, limit: 10 });
      expect(span.map(({ lane, id }) => `${lane}${id}`)).toEqual(["b2"]);
    });

    it("tasks of a lane are done in order and once, however many look for them", async () => {
      const count = 40;
      const lanes = ["a", "b", "c"];
      const agenda = createAgenda(one);
      for (const lane of lanes) {
        await one.commit(
          Array.from({ length: count }, (_, i) => agenda.add(task(lane, String(i).padStart(4, "0"), i))).flat(),
        );
      }
      const done: string[] = [];
      async function worker(store: Backend): Promise<void> {
        const own = createAgenda(store);
        for (;;) {
          const [next] = await own.due({ ...everyTask, limit: 1 });
          if (next === undefined) return;
          for (const lane of lanes) {
            const claim = await own.claim(lane, 10_000);
            if (claim === undefined) continue;
            for (const one of await claim.tasks(7)) {
              const mark = `done/${one.value.lane}/${one.value.id}`;
              await claim.finish(one, [{ key: mark, value: bytes(""), expect: 0 }]);
              done.push(`${one.value.lane}${one.value.id}`);
            }
            await claim.lease.release();
          }
        }
      }
      await Promise.all([worker(one), worker(one), worker(other), worker(other)]);
      for (const lane of lanes) {
        const order = done.filter((name) => name.startsWith(lane));
        expect(order).toHaveLength(count);
        expect(order).toEqual(order.toSorted());
      }
      expect(await one.list({ from: "done/", to: "done0", limit: 1_000 })).toHaveLength(3 * count);
    });

    it("S17 whoever lost a lane finishes nothing in it, and the task is done by the next", async () => {
      const agenda = createAgenda(one);
      await one.commit(agenda.add(task("a", "1", 0)));
      const late = await agenda.claim("a", 150);
      const [held] = (await late?.tasks(1)) ?? [];
      if (late === undefined || held === undefined) throw new Error("nothing to do");
      await sleep(250);
      const claim = await createAgenda(other).claim("a", 10_000);
      const outcome = { key: "outcome", value: bytes("late") };
      await expect(late.finish(held, [outcome])).rejects.toBeInstanceOf(LeaseLost);
      await expect(late.postpone(held, 5)).rejects.toBeInstanceOf(LeaseLost);
      expect(await other.get("outcome")).toBeUndefined();
      const [again] = (await claim?.tasks(1)) ?? [];
      expect(again?.value.attempts).toBe(0);
      if (again !== undefined) await claim?.finish(again);
      expect(await agenda.due(everyTask)).toEqual([]);
    });

    it("a task that failed comes again when it was said it would, with its attempts counted", async () => {
      const agenda = createAgenda(one);
      await one.commit(agenda.add(task("a", "1", 10)));
      const claim = await agenda.claim("a", 10_000);
      const [first] = (await claim?.tasks(1)) ?? [];
      if (claim === undefined || first === undefined) throw new Error("nothing to do");
      await claim.postpone(first, 70_000, [{ key: "attempt", value: bytes("503") }]);
      expect(await agenda.due({ fromMs: 0, toMs: 60_000, limit: 10 })).toEqual([]);
      const [later] = await agenda.due({ fromMs: 60_000, toMs: 80_000, limit: 10 });
      expect(later).toMatchObject({ lane: "a", id: "1", attempts: 1, errand: "forward" });
    });
  });
}
