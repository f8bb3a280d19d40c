import { expect, it } from "vitest";
import { openTestBroker } from "./open-broker.ts";
import { contacts, everything, shown } from "./records.ts";
import { testWorld } from "./world.ts";

const tokens = { case: "oauth2", value: { accessToken: "token" } } as const;

async function open() {
  const world = testWorld();
  const opened = await openTestBroker(world);
  await opened.import("ada", tokens);
  return { ...opened, world, records: opened.broker.records };
}

it("tells of each record what came of saving it, and moves what changed to the end", async () => {
  const { records } = await open();
  const of = contacts();
  const first = await records.save(of, [
    { id: "a", n: 1 },
    { id: 2, n: 1 },
    { id: "c", n: 1 },
  ]);
  expect(first).toEqual({ added: 3, updated: 0, deleted: 0, unchanged: 0 });
  const second = await records.save(of, [
    { n: 1, id: "a", _nango_metadata: { cursor: "x" } },
    { id: 2, n: 2 },
  ]);
  expect(second).toEqual({ added: 0, updated: 1, deleted: 0, unchanged: 1 });
  expect(await shown(records, of)).toEqual([
    ["a", "ADDED", { id: "a", n: 1 }],
    ["c", "ADDED", { id: "c", n: 1 }],
    ["2", "UPDATED", { id: 2, n: 2 }],
  ]);
  expect(await records.delete(of, [{ id: "a" }, "none"])).toMatchObject({ deleted: 1 });
  expect(await records.delete(of, ["a"])).toMatchObject({ deleted: 0 });
  expect((await shown(records, of)).map(([id, action]) => `${id} ${action}`)).toEqual([
    "c ADDED",
    "2 UPDATED",
    "a DELETED",
  ]);
  expect(await records.save(of, [{ id: "a", n: 1 }])).toMatchObject({ added: 1 });
  expect((await records.counts(of.connection)).map(({ model, variant, count }) => [model, variant, count])).toEqual([
    ["Contact", "base", 3],
  ]);
  expect((await records.list(of, { ...everything, limit: 2 })).next).not.toBe("");
  expect((await records.list(of, { ...everything, limit: 3 })).next).toBe("");
});
