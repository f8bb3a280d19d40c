import { expect, it } from "vitest";
import { createLog } from "../../../src/base/log.ts";
import { type Backend, StoreUnavailable } from "../../../src/store/contract.ts";
import { createWaitingBackend } from "../../../src/store/waiting-backend.ts";
import { startStopwatch } from "../../support/runner/stopwatch.ts";
import { openTestStore, testWorld } from "../broker/world.ts";

const apart = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** A store after startup whose next operations fail, as many as set. */
async function failing() {
  const opened = await openTestStore(testWorld());
  const counted = { left: 0, asked: 0 };
  const broken = <T>(operation: () => Promise<T>): Promise<T> => {
    counted.asked += 1;
    counted.left -= 1;
    return counted.left >= 0 ? Promise.reject(new StoreUnavailable("the connection broke")) : operation();
  };
  const breaking: Backend = {
    ...opened,
    get: (key) => broken(() => opened.get(key)),
    getMany: (keys) => broken(() => opened.getMany(keys)),
    list: (range) => broken(() => opened.list(range)),
    clock: () => broken(() => opened.clock()),
    watch: (from, watcher) => broken(() => opened.watch(from, watcher)),
    caughtUp: () => broken(async () => {}),
    commit: (changes) => broken(() => opened.commit(changes)),
    sessions: { current: () => undefined, hasEnded: () => broken(async () => true) },
  };
  const log = createLog({ level: "error", format: "json", write: () => {} });
  const { backend, end } = createWaitingBackend({ backend: breaking, onObstacle: () => {}, log });
  end();
  return { backend, counted };
}

/** The outcome, and its time in milliseconds. */
async function timed(
  asked: Promise<unknown> | undefined,
): Promise<{ readonly came: string; readonly ms: number; readonly passedMs: number }> {
  const elapsed = startStopwatch();
  const came = await Promise.resolve(asked).then(
    () => "answered",
    (error: Error) => error.name,
  );
  return { came, ms: elapsed.ms, passedMs: elapsed.passedMs };
}

it("repeats every kind of read after a short failure, and no commit", async () => {
  const { backend, counted } = await failing();
  const onCommit = () => {};
  const reads: readonly (() => Promise<unknown> | undefined)[] = [
    () => backend.get("a"),
    () => backend.getMany(["a"]),
    () => backend.list({ from: "a", to: "b", limit: 1 }),
    () => backend.clock(),
    () => backend.watch(0, { onCommit, onLost: onCommit }),
    () => backend.caughtUp(),
    () => backend.sessions?.hasEnded("one"),
  ];
  for (const read of reads) {
    Object.assign(counted, { left: 1, asked: 0 });
    expect({ read: `${read}`, ...(await timed(read())), asked: counted.asked }).toMatchObject({
      came: "answered",
      asked: 2,
    });
  }
  Object.assign(counted, { left: 1, asked: 0 });
  const { came } = await timed(backend.commit([{ key: "a", value: undefined }]));
  expect([came, counted.asked]).toEqual(["StoreUnavailable", 1]);
});

it("reports within about a second that the store is away, and from then on at once", async () => {
  const { backend, counted } = await failing();
  counted.left = Number.POSITIVE_INFINITY;
  const [first, beside] = await Promise.all([timed(backend.get("a")), apart(500).then(() => timed(backend.get("b")))]);
  expect([first.came, beside.came]).toEqual(["StoreUnavailable", "StoreUnavailable"]);
  expect(first.passedMs).toBeGreaterThan(900);
  expect(first.ms).toBeLessThan(1_600);
  expect(beside.ms).toBeLessThan(1_100);
  const asked = counted.asked;
  const late = await Promise.all(Array.from({ length: 20 }, () => timed(backend.get("b"))));
  expect(Math.max(...late.map(({ ms }) => ms))).toBeLessThan(200);
  expect(counted.asked - asked).toBe(20);

  // As soon as the store answers again, callers wait for it as before.
  counted.left = 0;
  expect((await timed(backend.get("a"))).came).toBe("answered");
  counted.left = 1;
  expect((await timed(backend.get("b"))).came).toBe("answered");
});

it("waits for nothing once it is closed", async () => {
  const { backend } = await failing();
  await backend.close();
  const { came, ms } = await timed(backend.get("a"));
  expect([came, ms < 90]).toEqual(["StoreUnavailable", true]);
});
