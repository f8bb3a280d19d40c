import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { createProviderQueues } from "../../../../../src/broker/connect/describe/provider-queues.ts";

const key = (provider: string, id: string) => ["description.due", provider, "0", "dev", provider, id].join("\0");
const keys = (provider: string, count: number) => Array.from({ length: count }, (_, i) => key(provider, `c${i}`));

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["performance", "Date"], now: 1_000_000 });
});
afterEach(() => {
  vi.useRealTimers();
});

function openQueues() {
  const started: string[] = [];
  const ends: (() => void)[] = [];
  const queues = createProviderQueues({ now: Date.now, shareOf: (limit) => limit, onFree: () => {} });
  const start = () =>
    queues.startDue(({ provider }) => {
      started.push(provider);
      return new Promise((resolve) => ends.push(resolve));
    });
  return { queues, start, started, ends };
}

it("starts four requests of a provider at once, and then one every 50 ms as others end", async () => {
  const { queues, start, ends } = openQueues();
  vi.advanceTimersByTime(10_000);
  queues.replace(new Map([["calendar", keys("calendar", 6)]]));
  expect(start()).toBe(4);
  const running = queues.running();
  for (const end of ends) end();
  await Promise.all(running);
  expect(start()).toBe(1);
  expect(queues.isPaced()).toBe(true);
  vi.advanceTimersByTime(50);
  expect(start()).toBe(1);
});

it("pauses a provider that demanded a wait, and no others", () => {
  const { queues, start, started } = openQueues();
  vi.advanceTimersByTime(10_000);
  queues.replace(
    new Map([
      ["calendar", keys("calendar", 1)],
      ["mail", keys("mail", 1)],
    ]),
  );
  queues.hold("calendar", 5_000);
  start();
  expect(started).toEqual(["mail"]);
  vi.advanceTimersByTime(5_000);
  start();
  expect(started).toEqual(["mail", "calendar"]);
});

it("never requests a connection twice at the same time", () => {
  const { queues, start } = openQueues();
  vi.advanceTimersByTime(10_000);
  queues.replace(new Map([["calendar", keys("calendar", 1)]]));
  expect(start()).toBe(1);
  queues.replace(new Map([["calendar", keys("calendar", 1)]]));
  expect(start()).toBe(0);
});
