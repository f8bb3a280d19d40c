import { timestampMs } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { EdgeStream } from "../../../../src/broker/edges/edge-stream.ts";
import { heartbeatEveryMs, keepAlive } from "../../../../src/broker/edges/keep-alive.ts";

const newStream = (): EdgeStream =>
  new EdgeStream({
    ...{ id: "e", host: "pod-1", version: "1", environment: "dev", identity: "edges", proof: "key" },
    ...{
      appliesLimits: true,
      appliesPolicies: true,
      hasForwardProxy: false,
      appliesTools: true,
      proofEndsAtMs: undefined,
      connectedAtMs: 0,
    },
  });

it("tells its time at each interval, also to an edge that got something else a moment ago", async () => {
  const stream = newStream();
  const now = () => 1_900_000_000_000;
  expect(keepAlive(stream, { now })).toBe(false);
  expect(stream.outbox.size).toBe(0);
  stream.beatAtMs -= heartbeatEveryMs;
  stream.outbox.takenAtMs = performance.now();
  for (let i = 0; i < 2; i += 1) keepAlive(stream, { now });
  expect(stream.outbox.size).toBe(1);
  const { value } = await stream.outbox.messages(new AbortController().signal).next();
  const told = value?.message.case === "heartbeat" ? value.message.value.now : undefined;
  expect(told && timestampMs(told)).toBe(now());
});
