import { create } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { planAfter } from "../../../../../src/broker/connect/describe/attempt-plan.ts";
import { ConnectionDescriptionSchema } from "../../../../../src/gen/latchkey/stored/v1/stored_pb.ts";

const nowMs = 1_700_000_000_000;
const before = (attempts: number) => create(ConnectionDescriptionSchema, { attempts });
const plan = (rest: Partial<Parameters<typeof planAfter>[0]>) =>
  planAfter({ before: before(0), found: {}, failures: [], isDead: false, nowMs, ...rest });

it("forgets a complete connection, unless values came from the provider", () => {
  expect(plan({})).toEqual({ outcome: "complete", attempts: 1, next: undefined });
  expect(plan({ found: { "metadata.email": "digest" } }).next?.found).toEqual({ "metadata.email": "digest" });
});

it("asks again after a failure, no sooner than the provider requests", () => {
  const { outcome, next } = plan({ failures: [{ reason: "rate_limited", status: 429, retryAfterMs: 60_000 }] });
  expect(outcome).toBe("failed");
  expect(next?.attempts).toBe(1);
  expect(next?.dueAt && timestampMs(next.dueAt)).toBe(nowMs + 60_000);
});

it("gives up on dead credentials, and on a provider that keeps refusing", () => {
  const failures = [{ reason: "refused", status: 403 }];
  expect(plan({ failures, isDead: true })).toMatchObject({ outcome: "given_up", next: undefined });
  expect(plan({ before: before(4), failures }).outcome).toBe("failed");
  expect(plan({ before: before(5), failures }).outcome).toBe("given_up");
});
