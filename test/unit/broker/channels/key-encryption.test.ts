import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { createChannelCollections } from "../../../../src/broker/channels/channel-collections.ts";
import { StoredChannelSchema } from "../../../../src/gen/latchkey/stored/v1/stored_pb.ts";
import type { Store } from "../../../../src/store/contract.ts";

it("stores the key of a channel only in encrypted values", () => {
  const { channels } = createChannelCollections({} as Store);
  const stored = (key: string) =>
    create(StoredChannelSchema, {
      channel: { id: "c1", connection: { environment: "dev", integration: "asana", id: "ada" } },
      tokenHash: "a".repeat(64),
      hasOwnKey: true,
      key,
    });
  const changes = channels.change({ before: undefined, after: stored("the-key-of-c1") });
  const holding = changes.filter(({ value }) => Buffer.from(value ?? []).includes("the-key-of-c1"));
  expect(holding.map(({ key, secret }) => [key.split("\0")[0], secret])).toEqual([
    ["channel", true],
    ["channel.token", true],
  ]);
  // Before the key is known there is nothing to hide.
  expect(channels.change({ before: undefined, after: stored("") }).some(({ secret }) => secret === true)).toBe(false);
});
