import { setTimeout as sleep } from "node:timers/promises";
import { expect, it, onTestFinished, vi } from "vitest";
import { createLoopClock } from "../../../../src/base/loop-clock.ts";
import { createHistory } from "../../../../src/store/history.ts";
import { createBell } from "../../../../src/store/postgres/listening/bell.ts";
import { createPolling } from "../../../../src/store/postgres/listening/polling.ts";

const everyMs = 25;

function startPolls({ isQuiet }: { isQuiet: boolean }) {
  const polls: number[] = [];
  const clock = createLoopClock();
  const polling = createPolling({
    stream: {
      movedTo: undefined,
      revision: 0,
      async readToHead() {
        polls.push(performance.now());
      },
      beginSession: () => expect.unreachable("there is no outage"),
    },
    outage: { error: undefined, begin: (error) => expect.unreachable(String(error)), end: () => {} },
    clock,
    everyMs,
    isQuiet: () => isQuiet,
  });
  polling.start();
  onTestFinished(async () => {
    await polling.stop();
    clock.close();
  });
  return { polling, polls };
}

it("polls less often while nothing happens, and as often as usual when something may have", async () => {
  const [busy, quiet] = [startPolls({ isQuiet: false }), startPolls({ isQuiet: true })];
  while (busy.polls.length < 50) await sleep(everyMs);
  expect(quiet.polls.length).toBeLessThan(busy.polls.length / 2);

  const before = quiet.polls.length;
  const askedAt = performance.now();
  const seen = busy.polls.length;
  quiet.polling.beAlert();
  // By the time of the other's second poll from now, an interval has passed, and eight have not.
  while (busy.polls.length < seen + 3) await sleep(5);
  expect(quiet.polls.slice(before).some((at) => at > askedAt)).toBe(true);
});

it("misses the bell once it stays silent for commits that are announced", () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  onTestFinished(() => void vi.useRealTimers());
  const history = createHistory({
    revision: 0,
    maxBytes: 10_000,
    onWatcherError: (error) => expect.unreachable(String(error)),
  });
  const bell = createBell(history);
  const commit = (key: string) =>
    history.add({ revision: history.revision + 1, changes: [{ key, value: Buffer.from("v") }] });

  commit("member\0a");
  vi.advanceTimersByTime(5_000);
  expect([bell.hasNews(), bell.isMissed()]).toEqual([false, false]);

  commit("connection\0a");
  expect([bell.hasNews(), bell.isMissed()]).toEqual([true, false]);
  vi.advanceTimersByTime(500);
  bell.rang();
  commit("connection\0b");
  vi.advanceTimersByTime(5_000);
  expect(bell.isMissed()).toBe(false);

  history.lose(10);
  commit("connection\0c");
  vi.advanceTimersByTime(5_000);
  expect(bell.isMissed()).toBe(true);
  bell.rang();
  expect(bell.isMissed()).toBe(false);
});
