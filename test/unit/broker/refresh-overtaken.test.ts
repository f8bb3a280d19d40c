import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import type { SendSmallRequest } from "../../../src/base/small-requests.ts";
import type { Change } from "../../../src/store/contract.ts";
import { openTestBroker, refOf } from "./open-broker.ts";
import { testWorld } from "./world.ts";

/** A connection with expired credentials over a real store, and a provider that always refreshes. */
async function expired() {
  const world = testWorld();
  const spent: string[] = [];
  const send: SendSmallRequest = async ({ method, body = "" }) => {
    // The keys of its ID tokens, which these tests do not need.
    if (method !== "POST") return { status: 404, header: () => undefined, fields: [], body: Buffer.alloc(0) };
    spent.push(new URLSearchParams(String(body)).get("refresh_token") ?? "");
    const tokens = {
      access_token: `renewed-${spent.length}`,
      refresh_token: `next-${spent.length}`,
      expires_in: 3_600,
    };
    return { status: 200, header: () => undefined, fields: [], body: Buffer.from(JSON.stringify(tokens)) };
  };
  const all = await openTestBroker(world, { send });
  const put = (refreshToken: string) =>
    all.import("ada", {
      case: "oauth2",
      value: { accessToken: `of-${refreshToken}`, refreshToken, expiresAt: timestampFromMs(world.now() - 60_000) },
    });
  await put("first");
  const { store } = all;
  const { commit } = store;
  /** Runs once, when a refresh has read the connection and is about to record its intent. */
  function beforeIntent(happens: () => Promise<void>): void {
    const isIntent = (changes: readonly Change[]) =>
      changes.some(({ key, value }) => key.startsWith("refresh\0") && value !== undefined) &&
      changes.some(({ key, value }) => key.startsWith("lease\0") && value !== undefined);
    let isOver = false;
    store.commit = async (changes, conditions) => {
      if (!isOver && isIntent(changes)) {
        isOver = true;
        await happens();
      }
      return commit.call(store, changes, conditions);
    };
  }
  return { ...all, spent, put, beforeIntent };
}

it("uses no credentials that were replaced after it read them, and refreshes the new ones", async () => {
  const { broker, spent, put, beforeIntent, known } = await expired();
  beforeIntent(() => put("second"));
  const { credentials } = await broker.live.get(refOf("ada"));
  expect(spent).toEqual(["second"]);
  expect(credentials.kind.value).toMatchObject({ accessToken: "renewed-1", refreshToken: "next-1" });
  expect((await known("ada")).credentials).toEqual(credentials);
});

it("sends nothing if the connection was deleted after it was read", async () => {
  const { broker, spent, beforeIntent } = await expired();
  beforeIntent(async () => void (await broker.connections.delete({ ref: refOf("ada"), expectedRevision: 0n }, "test")));
  await expect(broker.live.get(refOf("ada"))).rejects.toMatchObject({ code: "unknown_connection" });
  expect(spent).toEqual([]);
});
