import { setTimeout as sleep } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import type { AuthorizationCollections } from "../../../../../src/broker/connect/authorization-collections.ts";
import { createPendingLimit } from "../../../../../src/broker/connect/authorize/pending-limit.ts";
import type { StoredSession } from "../../../../../src/broker/connect/sessions.ts";
import { PendingAuthorizationSchema } from "../../../../../src/gen/latchkey/stored/v1/stored_pb.ts";

it("admits 20 of 30 authorizations at once, however long each read of the store takes", async () => {
  const nowMs = 1_000_000;
  const stored: { readonly value: unknown }[] = [];
  let reads = 0;
  const pendingAuthorizations = {
    pageBy: async () => {
      const found = [...stored];
      reads += 1;
      await sleep(reads);
      return found;
    },
  };
  const { withRoom } = createPendingLimit({
    collections: { pendingAuthorizations } as unknown as AuthorizationCollections,
    now: () => nowMs,
  });
  const session = { value: { id: "session" } } as unknown as StoredSession;
  const value = create(PendingAuthorizationSchema, { createdAt: timestampFromMs(nowMs) });
  const outcomes = await Promise.allSettled(
    Array.from({ length: 30 }, () => withRoom(session, async () => void stored.push({ value }))),
  );
  expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(20);
  await expect(withRoom(session, async () => {})).rejects.toMatchObject({ code: "too_many_requests" });
});
