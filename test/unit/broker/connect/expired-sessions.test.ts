import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { createCollections } from "../../../../src/broker/collections.ts";
import { createConnectSweep } from "../../../../src/broker/connect/expired-sessions.ts";
import {
  ConnectOutcomeSchema,
  McpAnswerSchema,
  McpSubscriptionsSchema,
  PendingAuthorizationSchema,
} from "../../../../src/gen/latchkey/stored/v1/stored_pb.ts";
import { ConnectSessionSchema } from "../../../../src/gen/latchkey/v1/connect_session_pb.ts";
import { openTestStore, testWorld } from "../world.ts";

it("deletes expired sessions with their secondary keys, and keeps the others", async () => {
  const world = testWorld();
  const store = await openTestStore(world);
  const collections = createCollections(store, { fieldsOf: () => [] });
  const { connectSessions, pendingAuthorizations, connectOutcomes, mcpAnswers, mcpSubscriptions } = collections;
  const sweep = createConnectSweep({ store, collections, world });
  const { signal } = new AbortController();
  const begin = async (count: number, name: string) => {
    const createdAt = timestampFromMs(world.now());
    const changes = Array.from({ length: count }, (_, i) => [
      ...connectSessions.change({
        before: undefined,
        after: create(ConnectSessionSchema, { id: `${name}${i}`, createdAt }),
      }),
      ...pendingAuthorizations.change({
        before: undefined,
        after: create(PendingAuthorizationSchema, { stateHash: `${name}${i}`, sessionId: name, createdAt }),
      }),
      ...connectOutcomes.change({
        before: undefined,
        after: create(ConnectOutcomeSchema, { listenerHash: `${name}${i}`, createdAt }),
      }),
      ...mcpAnswers.change({
        before: undefined,
        after: create(McpAnswerSchema, { questionHash: `${name}${i}`, createdAt }),
      }),
      ...mcpSubscriptions.change({
        before: undefined,
        after: create(McpSubscriptionsSchema, { callerHash: name, sessionHash: `${i}`, createdAt }),
      }),
    ]);
    await store.commit(changes.flat());
  };
  const left = async () => {
    const all = { under: [], limit: 10_000 };
    return Promise.all(
      [connectSessions.page(all), pendingAuthorizations.page(all), connectOutcomes.page(all), mcpAnswers.page(all)].map(
        async (page) => (await page).length,
      ),
    );
  };
  await begin(1_200, "old");
  world.advance(25 * 60_000);
  await begin(1, "new");
  expect(await left()).toEqual([1_201, 1_201, 1_201, 1_201]);
  await sweep(signal);
  expect(await left()).toEqual([1_201, 1, 1, 1]);
  world.advance(5 * 60_000);
  await sweep(signal);
  expect(await left()).toEqual([1, 1, 0, 0]);
  world.advance(30 * 60_000);
  await sweep(signal);
  expect((await mcpSubscriptions.page({ under: [], limit: 10_000 })).length).toBe(1_201);
  world.advance(24 * 3_600_000);
  await sweep(signal);
  const keys = (await store.list({ from: "", to: "\u{10ffff}", limit: 10_000 })).map(({ key }) => key);
  expect(keys.filter((key) => /^(connect|pending|mcp)-/.test(key))).toEqual([]);
});
