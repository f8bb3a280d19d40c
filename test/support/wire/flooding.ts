import http2 from "node:http2";
import { expect } from "vitest";
import { post } from "../../cases/control-plane/foreign.ts";
import type { FramesPeer } from "../../cases/control-plane/frames.ts";
import type { TestSidecar } from "../sidecar/harness.ts";

type Doors = Pick<TestSidecar, "control" | "rest">;

/** Somebody else's calls on both doors, one after the other: how long the slowest took. */
export async function slowestOfOthers({ control, rest }: Doors): Promise<number> {
  let slowest = 0;
  for (let i = 0; i < 10; i += 1) {
    const since = performance.now();
    const [{ status }, { status: onData }] = await Promise.all([
      post(control, "ConnectionService/ListConnections", { environment: "dev" }),
      rest("GET", "/connections"),
    ]);
    expect([status, onData]).toEqual([200, 200]);
    slowest = Math.max(slowest, performance.now() - since);
  }
  return slowest;
}

/** The peer is told to go and its connection ends; meanwhile nobody else waits, and little is spent on it. */
export async function expectSentAway(
  doors: Doors,
  peer: FramesPeer,
  flood: (peer: FramesPeer) => void | Promise<void>,
): Promise<void> {
  const before = process.cpuUsage();
  // Once closed, what is still to be sent is sent in vain.
  await Promise.race([flood(peer), peer.closed]);
  expect(await slowestOfOthers(doors)).toBeLessThan(5_000);
  await peer.closed;
  expect(peer.goaway()).not.toBe(http2.constants.NGHTTP2_NO_ERROR);
  // Both ends and the others' calls lie in this process.
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1_000_000).toBeLessThan(5);
}
