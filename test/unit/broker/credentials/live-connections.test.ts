import { expect, it } from "vitest";
import { faultOfStore } from "../../../../src/broker/stored/store-fault.ts";
import { StoreUnavailable } from "../../../../src/store/contract.ts";
import { type OpenBroker, openTestBroker, refOf } from "../open-broker.ts";
import { testWorld } from "../world.ts";

const apart = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** A broker over a real store in which the next reads fail, as many as set. */
async function failing() {
  const all = await openTestBroker(testWorld());
  for (const id of ["ada", "bob"]) await all.import(id, { case: "oauth2", value: { accessToken: `token-of-${id}` } });
  const { store } = all;
  const [get, getMany] = [store.get, store.getMany];
  const counted = { left: 0, asked: 0 };
  const failed = () => {
    counted.asked += 1;
    counted.left -= 1;
    return counted.left >= 0;
  };
  const broken = () => Promise.reject(new StoreUnavailable("the connection broke"));
  store.get = (key) => (failed() ? broken() : get.call(store, key));
  store.getMany = (keys) => (failed() ? broken() : getMany.call(store, keys));
  return { ...all, counted };
}

/** The outcome, and its time in milliseconds. */
async function timed({ broker }: OpenBroker, id: string): Promise<{ readonly came: string; readonly ms: number }> {
  const since = performance.now();
  const came = await broker.live.get(refOf(id)).then(
    ({ connection }) => connection.ref?.id ?? "",
    (error: unknown) => faultOfStore(error).code,
  );
  return { came, ms: performance.now() - since };
}

it("repeats a read once after a temporary store failure, and once for all callers", async () => {
  const whole = await failing();
  expect((await timed(whole, "ada")).came).toBe("ada");
  const ofOneLoad = whole.counted.asked;

  const all = await failing();
  all.counted.left = 1;
  const found = await Promise.all(Array.from({ length: 50 }, () => timed(all, "ada")));
  expect(new Set(found.map(({ came }) => came))).toEqual(new Set(["ada"]));
  // The load that failed, and one more.
  expect(all.counted.asked).toBeGreaterThan(ofOneLoad);
  expect(all.counted.asked).toBeLessThanOrEqual(2 * ofOneLoad);
});

it("reports within about a second that the store is away, and from then on at once", async () => {
  const all = await failing();
  all.counted.left = Number.POSITIVE_INFINITY;
  const [first, beside] = await Promise.all([timed(all, "ada"), apart(500).then(() => timed(all, "bob"))]);
  expect([first.came, beside.came]).toEqual(["store_unavailable", "store_unavailable"]);
  expect(first.ms).toBeGreaterThan(900);
  expect(first.ms).toBeLessThan(1_600);
  expect(beside.ms).toBeLessThan(1_100);
  const asked = all.counted.asked;
  const late = await Promise.all(Array.from({ length: 20 }, () => timed(all, "bob")));
  expect(Math.max(...late.map(({ ms }) => ms))).toBeLessThan(200);
  expect(all.counted.asked - asked).toBeLessThan(10);

  // As soon as the store answers again, callers wait for it as before.
  all.counted.left = 0;
  expect((await timed(all, "ada")).came).toBe("ada");
  all.counted.left = 1;
  expect((await timed(all, "bob")).came).toBe("bob");
});

it("does not repeat a read that the store has answered", async () => {
  const all = await failing();
  const { came, ms } = await timed(all, "nobody");
  expect([came, ms < 90]).toEqual(["unknown_connection", true]);
});
