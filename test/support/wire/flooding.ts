import http2 from "node:http2";
import { expect } from "vitest";
import { post } from "../../cases/control-plane/foreign.ts";
import type { FramesPeer } from "../../cases/control-plane/frames.ts";
import type { TestSidecar } from "../sidecar/harness.ts";

type Doors = Pick<TestSidecar, "control" | "rest">;

/** Calls both listeners one request at a time during a flood; returns the slowest duration. */
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

/** Expects a GOAWAY and the end of the flooding connection, with little CPU time and no delay for other callers. */
export async function expectSentAway(
  doors: Doors,
  peer: FramesPeer,
  flood: (peer: FramesPeer) => void | Promise<void>,
): Promise<void> {
  const before = process.cpuUsage();
  // Once the connection is closed, later writes are lost.
  await Promise.race([flood(peer), peer.closed]);
  expect(await slowestOfOthers(doors)).toBeLessThan(10_000);
  await peer.closed;
  expect(peer.goaway()).not.toBe(http2.constants.NGHTTP2_NO_ERROR);
  // This process runs both ends and the other callers.
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1_000_000).toBeLessThan(5);
}
