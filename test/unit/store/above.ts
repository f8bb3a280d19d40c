import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Backend, StaleWrite, type Store } from "../../../src/store/contract.ts";
import { createHeldLease, type HeldLease } from "../../../src/store/held-lease.ts";
import { createLeases, type Lease, LeaseLost } from "../../../src/store/leases.ts";
import type { Ground } from "./conformance.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

interface SharedGround extends Ground {
  /** A second replica on the same fixture; of a store that one process has for itself, the same one. */
  openAnother(first: Backend): Promise<Backend>;
}

/** Everything built once above the contract must hold on every backend. */
export function carries(name: string, prepare: () => Promise<SharedGround>): void {
  describe(`above the ${name} store`, () => {
    let fixture: SharedGround;
    let one: Backend;
    let other: Backend;
    beforeEach(async () => {
      fixture = await prepare();
      one = await fixture.open();
      other = await fixture.openAnother(one);
    });
    afterEach(async () => {
      await other.close();
      await one.close();
      await fixture.clear();
    });

    it("a watcher that is caught up has seen every commit of every process", async () => {
      const told = new Set<string>();
      await other.watch(other.status().revision, {
        onCommit: ({ changes }) => {
          for (const { key } of changes) told.add(key);
        },
        onLost: () => expect.unreachable("nothing was lost"),
      });
      for (let i = 0; i < 20; i += 1) {
        await one.commit([{ key: `k${i}`, value: bytes("1") }]);
        // Its own commits in the meantime appear in their order.
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

    it("one of many concurrent callers takes a lease", async () => {
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

    it("S17 an expired lease goes to another, and writes under it are refused", async () => {
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
      // Nobody else took that lease: work that finishes late is still committed by its only holder.
      await expect(one.commit([{ key: "y", value: bytes("1") }], [untouched.fence])).resolves.toBeGreaterThan(0);
    });

    it("a lease renewed with another length lasts that long, for its holder and for others", async () => {
      const lease = await createLeases(one).take("x", 300);
      await lease?.renew(60_000);
      expect(lease?.remainingMs()).toBeGreaterThan(30_000);
      await sleep(400);
      expect(await createLeases(other).take("x", 1_000)).toBeUndefined();
      await lease?.renew(200);
      expect(lease?.remainingMs()).toBeLessThan(200);
      await sleep(300);
      expect(await createLeases(other).take("x", 1_000)).toBeDefined();
      await expect(lease?.renew(60_000)).rejects.toThrow(LeaseLost);
    });

    it("a renewed lease continues, and so does its fence", async () => {
      // Long enough that a slow machine does not let it expire in between.
      const lease = await createLeases(one).take("x", 1_200);
      for (let i = 0; i < 5; i += 1) {
        await sleep(300);
        await lease?.renew();
        expect(await createLeases(other).take("x", 1_200)).toBeUndefined();
      }
      await one.commit([{ key: "k", value: bytes("1") }], lease === undefined ? [] : [lease.fence]);
    });

    const lanes = ["a", "b", "c"];
    const toDo = (lane: string, limit: number) => ({ from: `to-do/${lane}/`, to: `to-do/${lane}0`, limit });
    const putDown = (lane: string, count: number) =>
      one.commit(
        Array.from({ length: count }, (_, i) => ({
          key: `to-do/${lane}/${String(i).padStart(4, "0")}`,
          value: bytes("1"),
        })),
      );
    /** Deletes the task and stores its result: both under the lease, or neither. */
    const finish = (store: Store, key: string, lease: Lease) =>
      store.commit(
        [
          { key, value: undefined },
          { key: key.replace("to-do/", "done/"), value: bytes("1"), expect: 0 },
        ],
        [lease.fence],
      );

    it("work under a lease is done in order and once, however many try", async () => {
      const count = 40;
      for (const lane of lanes) await putDown(lane, count);
      const done: string[] = [];
      async function worker(store: Backend): Promise<void> {
        const leases = createLeases(store);
        for (;;) {
          const left = await Promise.all(lanes.map((lane) => store.list(toDo(lane, 1))));
          if (left.flat().length === 0) return;
          for (const lane of lanes) {
            const lease = await leases.take(`lane/${lane}`, 10_000);
            if (lease === undefined) continue;
            for (const { key } of await store.list(toDo(lane, 7))) {
              await finish(store, key, lease);
              done.push(key);
            }
            await lease.release();
          }
        }
      }
      await Promise.all([worker(one), worker(one), worker(other), worker(other)]);
      for (const lane of lanes) {
        const order = done.filter((key) => key.startsWith(`to-do/${lane}/`));
        expect(order).toHaveLength(count);
        expect(order).toEqual(order.toSorted());
      }
      expect(await one.list({ from: "done/", to: "done0", limit: 1_000 })).toHaveLength(3 * count);
    });

    it("S17 the former holder of a lease finishes nothing under it, and the next one finds the work", async () => {
      await putDown("a", 1);
      const late = await createLeases(one).take("lane/a", 150);
      const [held] = await one.list(toDo("a", 1));
      if (late === undefined || held === undefined) throw new Error("nothing to do");
      await sleep(250);
      const next = await createLeases(other).take("lane/a", 10_000);
      expect(next?.ranOut).toBe(true);
      await expect(finish(one, held.key, late)).rejects.toBeInstanceOf(StaleWrite);
      expect(await other.list(toDo("a", 1))).toMatchObject([{ key: held.key }]);
      if (next !== undefined) await finish(other, held.key, next);
      expect(await one.list(toDo("a", 1))).toEqual([]);
      expect(await one.getMany(["done/a/0000"])).toMatchObject([{ key: "done/a/0000" }]);
    });

    it("a held lease stays with its holder, and goes to another once it is not renewed", async () => {
      const told: string[] = [];
      const heldBy = (name: string, store: Store) =>
        createHeldLease({
          ...{ store, name: "held", lengthMs: 1_200 },
          onTaken: () => {
            told.push(`${name} has it`);
          },
          onLost: () => {
            told.push(`${name} lost it`);
          },
        });
      const [first, second] = [heldBy("first", one), heldBy("second", other)];
      for (let i = 0; i < 6; i += 1) {
        expect(await first.hold()).toBeDefined();
        expect(await second.hold()).toBeUndefined();
        await sleep(300);
      }
      await sleep(1_300);
      expect(await second.hold()).toBeDefined();
      expect(await first.hold()).toBeUndefined();
      await second.release();
      await one.caughtUp();
      expect(await first.hold()).toBeDefined();
      expect(told).toEqual(["first has it", "second has it", "first lost it", "first has it"]);
    });

    it("who waits for a held lease asks the store only once it is released, or ran out", async () => {
      let asked = 0;
      const counting: Store = {
        ...other,
        getMany(keys) {
          asked += 1;
          return other.getMany(keys);
        },
      };
      const hold = async (lease: HeldLease): Promise<number> => {
        const before = asked;
        while ((await lease.hold()) === undefined) await sleep(10);
        return asked - before;
      };
      const holder = createHeldLease({ store: one, name: "held", lengthMs: 60_000 });
      const waiter = createHeldLease({ store: counting, name: "held", lengthMs: 60_000 });
      expect(await holder.hold()).toBeDefined();
      for (let i = 0; i < 10; i += 1) expect(await waiter.hold()).toBeUndefined();
      expect(asked).toBe(1);
      const released = hold(waiter);
      await holder.release();
      expect(await released).toBe(1);

      const short = createHeldLease({ store: one, name: "short", lengthMs: 900 });
      expect(await short.hold()).toBeDefined();
      const next = createHeldLease({ store: counting, name: "short", lengthMs: 900 });
      // One look finds it held; the others come after its end by the clock of this process, which may be early.
      const looks = await hold(next);
      expect(looks).toBeGreaterThan(1);
      expect(looks).toBeLessThan(10);
    });

    it("a held lease that is released while it is looked at is looked at again", async () => {
      const lease = await createLeases(one).take("held", 60_000);
      const slowly: Store = {
        ...other,
        async clock() {
          await lease?.release();
          await other.caughtUp();
          return other.clock();
        },
      };
      const waiter = createHeldLease({ store: slowly, name: "held", lengthMs: 60_000 });
      expect(await waiter.hold()).toBeUndefined();
      expect(await waiter.hold()).toBeDefined();
    });

    it("a held lease is refused to a process that fails its first step", async () => {
      let tries = 0;
      const lease = createHeldLease({
        ...{ store: one, name: "held", lengthMs: 10_000 },
        onTaken: () => {
          tries += 1;
          if (tries < 3) throw new Error("not yet");
        },
      });
      await expect(lease.hold()).rejects.toThrow("not yet");
      await expect(lease.hold()).rejects.toThrow("not yet");
      expect(await lease.hold()).toBeDefined();
      expect(await lease.hold()).toBeDefined();
      expect(tries).toBe(3);
    });
  });
}
