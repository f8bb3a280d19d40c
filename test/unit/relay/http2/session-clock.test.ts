import { expect, it } from "vitest";
import { ResetLimit } from "../../../../src/relay/http2/callers/reset-limit.ts";
import { SessionClock } from "../../../../src/relay/http2/callers/session-clock.ts";

function started() {
  const clock = new SessionClock(0, 30_000);
  const pongs: (() => void)[] = [];
  const session = {
    bytesRead: 0,
    bytesWritten: 0,
    unsentBytes: 0,
    isWithinFrame: false,
    frames: 0,
    hasSettings: true,
    openStreams: 0,
    ping: (done: () => void) => void pongs.push(done),
  };
  const at = (seconds: number, more: Partial<typeof session> = {}) =>
    clock.check(Object.assign(session, more), seconds * 1_000);
  return { clock, session, pongs, at };
}

it("gives a client 10 s for its SETTINGS, and 10 for its first request", () => {
  const silent = started();
  expect([silent.at(10, { hasSettings: false }), silent.at(11)]).toEqual(["goes on", "destroy"]);
  const { at } = started();
  expect([at(10), at(11), at(12)]).toEqual(["goes on", "drain", "goes on"]);
});

it("keeps a session without streams for five minutes, if it answers PINGs", () => {
  const { clock, at, session, pongs } = started();
  clock.streamOpened();
  expect(at(5, { openStreams: 1, bytesRead: 9, frames: 1 })).toBe("goes on");
  session.openStreams = 0;
  clock.lastStreamClosed(5_000);
  for (let second = 6; second <= 305; second += 1) {
    if (pongs.length > 0) {
      session.bytesRead += 17;
      pongs.pop()?.();
    }
    expect([second, at(second)]).toEqual([second, "goes on"]);
  }
  expect(at(306)).toBe("drain");
});

it("ends a session that is silent for 20 s and answers no PING in 20 more", () => {
  const { at, pongs } = started();
  const open = { openStreams: 1 };
  expect([at(20, open), pongs.length, at(21), pongs.length]).toEqual(["goes on", 0, "goes on", 1]);
  expect([at(41), at(42)]).toEqual(["goes on", "destroy"]);
  const reading = started();
  reading.at(21, open);
  // The answer to a PING waits behind what is written.
  for (let second = 22; second < 60; second += 1)
    expect(reading.at(second, { bytesWritten: second * 2_000 })).toBe("goes on");
  expect([reading.at(79), reading.at(80)]).toEqual(["goes on", "destroy"]);
});

it("ends a session within a frame or a head for 10 s, however many bytes come", () => {
  const { at } = started();
  const within = { openStreams: 1, isWithinFrame: true };
  at(1, { openStreams: 1, frames: 5, bytesRead: 1 });
  for (let second = 2; second <= 11; second += 1) expect(at(second, { ...within, bytesRead: second })).toBe("goes on");
  expect(at(12, { bytesRead: 12 })).toBe("destroy");
  const slow = started();
  for (let second = 1; second < 60; second += 1) {
    expect(slow.at(second, { ...within, frames: second, bytesRead: second })).toBe("goes on");
  }
});

it("ends a session whose client reads nothing for the time it may stall, although it sends frames", () => {
  const { at } = started();
  for (let second = 1; second <= 31; second += 1) {
    // More is written, and nothing leaves.
    const unsent = { bytesWritten: 100 + second, unsentBytes: 50 + second };
    expect(at(second, { openStreams: 1, bytesRead: second, frames: second, ...unsent })).toBe("goes on");
  }
  expect(at(32, { bytesRead: 32, frames: 32 })).toBe("destroy");
  const slow = started();
  for (let second = 1; second < 100; second += 1) {
    const sent = { bytesWritten: 1_000, unsentBytes: 900 - Math.floor(second / 20) };
    expect(slow.at(second, { openStreams: 1, bytesRead: second, frames: second, ...sent })).toBe("goes on");
  }
});

it("takes a thousand streams for nothing at once", () => {
  const limit = new ResetLimit();
  for (let i = 0; i < 1_000; i += 1) expect(limit.take()).toBe(true);
  // Depending on the time since the first one, a few more; never another thousand.
  const more = Array.from({ length: 1_000 }, () => limit.take());
  expect(more.filter((is) => is).length).toBeLessThan(500);
});
