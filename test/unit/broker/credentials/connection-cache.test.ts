import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import type { CachedConnection } from "../../../../src/broker/credentials/cached-connection.ts";
import { openConnectionCache } from "../../../../src/broker/credentials/connection-cache.ts";
import type { ConnectionRef } from "../../../../src/gen/latchkey/v1/connection_pb.ts";
import { keyOf } from "../../../../src/store/keys.ts";
import { openLevelStore } from "../../../../src/store/level/level.ts";
import { temporaryFolder } from "../../../support/sidecar/harness.ts";
import { testWorld } from "../world.ts";

const refOf = (id: string, integration = "keyed"): ConnectionRef => ({
  $typeName: "latchkey.v1.ConnectionRef",
  environment: "dev",
  integration,
  id,
});

async function openCache() {
  const world = testWorld();
  const store = await openLevelStore({ folder: join(await temporaryFolder(), "store"), ...world });
  const onIntegrationChange = vi.fn();
  const cache = await openConnectionCache({
    store,
    world,
    hits: { add() {} },
    onIntegrationChange,
    load: async () => ({ slot: {}, leave() {} }) as unknown as CachedConnection,
  });
  onTestFinished(async () => {
    cache.close();
    await store.close();
  });
  const refs = [refOf("a"), refOf("b"), refOf("keyed"), refOf("a", "other")];
  const changed = async (...parts: readonly string[]) => {
    for (const ref of refs) await cache.get(ref);
    await store.commit([{ key: keyOf(...parts), value: new Uint8Array() }]);
    return refs.map((ref) => cache.peek(ref) !== undefined);
  };
  return { changed, onIntegrationChange };
}

it("evicts a connection whose record or credentials change, and no other", async () => {
  const { changed, onIntegrationChange } = await openCache();
  expect(await changed("connection", "dev", "keyed", "a")).toEqual([false, true, true, true]);
  expect(await changed("credentials", "dev", "keyed", "b")).toEqual([true, false, true, true]);
  expect(await changed("credentials", "dev", "other", "a")).toEqual([true, true, true, false]);
  expect(await changed("connection.tag", "dev", "team", "t", "dev", "keyed", "a")).toEqual([true, true, true, true]);
  expect(onIntegrationChange).not.toHaveBeenCalled();
});

it("evicts all connections when an integration or a provider changes", async () => {
  const { changed, onIntegrationChange } = await openCache();
  const none = [false, false, false, false];
  expect(await changed("provider", "example")).toEqual(none);
  expect(onIntegrationChange).not.toHaveBeenCalled();
  expect(await changed("integration", "dev", "keyed")).toEqual(none);
  expect(await changed("integration-secrets", "dev", "other")).toEqual(none);
  expect(onIntegrationChange.mock.calls).toEqual([
    ["dev", "keyed"],
    ["dev", "other"],
  ]);
});
