import { expect, it } from "vitest";
import { createSyncScan } from "../../../../src/broker/syncs/sync-scan.ts";
import { noScripts } from "../../../../src/core/scripts/script.ts";
import { StaleWrite } from "../../../../src/store/contract.ts";
import { openTestBroker, refOf } from "../open-broker.ts";
import { testWorld } from "../world.ts";
import { dailySync } from "./daily-sync.ts";

const partition = {
  ...{ number: 0, fence: { key: "partition\x000", expect: 0 }, ranOut: false },
  ...{ isLostBy: () => false, remainingMs: () => 60_000 },
};

async function openScanned() {
  const world = testWorld();
  const { store, collections, import: importOne } = await openTestBroker(world);
  await importOne("ada", { case: "oauth2", value: { accessToken: "token" } });
  return { store, collections, world, scripts: { ...noScripts, all: () => [dailySync] } };
}

it("looks again soon at connections that another writer changed in the meantime", async () => {
  const { store, collections, world, scripts } = await openScanned();
  const { environment, integration, id } = refOf("ada");
  const syncOfAda = () => collections.syncs.get(environment, integration, id, dailySync.name, "base");
  let refusals = 1;
  const contested: typeof store = {
    ...store,
    async commit(changes, conditions) {
      refusals -= 1;
      if (refusals >= 0) throw new StaleWrite({ key: "connection", current: 2 });
      return store.commit(changes, conditions);
    },
  };
  const scan = createSyncScan({ store: contested, collections, scripts, world });
  await scan.scanWhenDue(partition);
  expect(await syncOfAda()).toBeUndefined();
  await expect
    .poll(async () => {
      await scan.scanWhenDue(partition);
      return syncOfAda();
    })
    .toBeDefined();
});

it("starts again at once, at the first connection, if scripts change while it reads", async () => {
  const { store, collections, world, scripts } = await openScanned();
  const found = await collections.connections.page({ under: [], limit: 1 });
  const positions: (string | undefined)[] = [];
  const connections = {
    ...collections.connections,
    async page({ after }: { readonly after?: string | undefined }) {
      positions.push(after);
      if (positions.length === 1) scan.restart();
      return Array.from({ length: 1_000 }, () => found).flat();
    },
  };
  const scan = createSyncScan({
    ...{ scripts, world, collections: { ...collections, connections } },
    store: { ...store, commit: () => Promise.resolve(1) },
  });
  await scan.scanWhenDue(partition);
  await scan.scanWhenDue(partition);
  await scan.scanWhenDue(partition);
  expect(positions).toEqual([undefined, undefined]);
});
