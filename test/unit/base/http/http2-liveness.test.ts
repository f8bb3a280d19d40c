import { EventEmitter } from "node:events";
import type { ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import { beforeEach, expect, it, vi } from "vitest";
import { watchLiveness } from "../../../../src/base/http/http2-liveness.ts";

// Time does not pass between the creation of a session and its checks.
beforeEach(() => {
  vi.useFakeTimers({ toFake: ["performance"] });
  return () => void vi.useRealTimers();
});

/** A session whose client is silent. `answer` calls back for each PING. */
function silent(answer: (done: (error: Error | null) => void) => void) {
  const state = { effectiveRecvDataLength: 0, localWindowSize: 65_535, remoteWindowSize: 65_535 };
  const session = Object.assign(new EventEmitter(), { state, ping: answer });
  const socket = { bytesRead: 540, bytesWritten: 75 };
  return watchLiveness({
    session: session as unknown as ServerHttp2Session,
    socket: socket as unknown as Socket,
  });
}

/** The second in which the client counts as gone; undefined: never within two minutes. */
function goneAfter(liveness: ReturnType<typeof watchLiveness>): number | undefined {
  // Whole milliseconds, half a second off the limits: every run reaches a limit at the same check.
  const since = Math.ceil(performance.now()) + 500;
  for (let second = 1; second <= 120; second += 1) if (!liveness.check(since + second * 1_000)) return second;
  return undefined;
}

it("counts a silent client as gone that answers no PING, also when Node cannot send one", () => {
  const unanswered = goneAfter(silent(() => {}));
  expect(unanswered).toBeGreaterThan(40);
  expect(unanswered).toBeLessThan(45);
  // As on a session that ends because its client violated the protocol.
  expect(goneAfter(silent((done) => done(new Error("HTTP2 ping cancelled"))))).toBe(unanswered);
});

it("keeps a silent client that answers PINGs", () => {
  expect(goneAfter(silent((done) => done(null)))).toBeUndefined();
});
