import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { PendingAuthorizationSchema } from "../../../../src/gen/latchkey/stored/v1/stored_pb.ts";
import { ConnectSessionSchema } from "../../../../src/gen/latchkey/v1/connect_session_pb.ts";
import { openTestBroker } from "../open-broker.ts";
import { testWorld } from "../world.ts";

const filter = { environment: "dev", integration: "", connectionId: "", operation: "auth.authorize", failed: true };

it("tells once of an authorization whose process ended after the code was used up", async () => {
  const world = testWorld();
  const { broker, store, collections } = await openTestBroker(world);
  const { pendingAuthorizations, connectSessions } = collections;
  const createdAt = timestampFromMs(world.now());
  const pending = { environment: "dev", integration: "calendar", hasSteps: true, createdAt };
  const begun = (name: string, sessionId: string, claimed: boolean) =>
    pendingAuthorizations.change({
      before: undefined,
      after: create(PendingAuthorizationSchema, {
        ...pending,
        stateHash: name,
        sessionId,
        codeVerifier: "a-secret-verifier",
        ...(claimed ? { claimedAt: createdAt } : {}),
      }),
    });
  await store.commit([
    ...connectSessions.change({ before: undefined, after: create(ConnectSessionSchema, { id: "open", createdAt }) }),
    ...begun("interrupted", "open", true),
    // The commit of its connection has ended the session.
    ...begun("completed", "ended", true),
    ...begun("abandoned", "open", false),
  ]);
  const names = async () =>
    (await pendingAuthorizations.page({ under: [], limit: 10 })).map(({ value: { stateHash } }) => stateHash);
  await broker.keepHouse();
  expect(await names()).toHaveLength(3);
  world.advance(10 * 60_000);
  await broker.keepHouse();
  await broker.keepHouse();
  expect(await names()).toEqual([]);
  const { items } = await broker.logs.list(filter, { size: 10, token: "" });
  expect(items.map(({ lines }) => lines.map(({ level, fields }) => [level, fields]))).toEqual([
    [["warn", { reason: "interrupted" }]],
  ]);
});
