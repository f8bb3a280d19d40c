import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { createLogCollections } from "../../../../src/broker/audit/log-collections.ts";
import { createTails, type TailStep } from "../../../../src/broker/stored/tails.ts";
import { type Log, LogSchema } from "../../../../src/gen/latchkey/v1/log_pb.ts";
import type { Watcher } from "../../../../src/store/contract.ts";
import { openTestStore, testWorld } from "../world.ts";

async function openTail() {
  const world = testWorld();
  const store = await openTestStore(world);
  const { logs } = createLogCollections(store);
  const left = new AbortController();
  /** Loses the store's history for the latest watcher. */
  let lose = () => {};
  const watched = {
    ...store,
    watch(from: number, watcher: Watcher) {
      lose = () => void watcher.onLost();
      return store.watch(from, watcher);
    },
    status: () => store.status(),
  };
  const isWanted = ({ operation }: Log) => operation !== "unwanted";
  const tail = createTails({ store: watched, world });
  const steps = tail(logs, { under: ["dev"], isWanted, signal: left.signal });
  const add = (id: string, { environment = "dev", operation = "wanted" } = {}) =>
    store.commit(logs.added(create(LogSchema, { environment, id, operation })));
  return { steps, add, left, lose: () => lose(), tail, logs };
}

const shown = (step: TailStep<Log> | undefined) => (step?.kind === "put" ? step.value.id : step?.kind);
const next = async (steps: AsyncGenerator<TailStep<Log>>) => (await steps.next()).value as TailStep<Log> | undefined;

it("shows what is added from now on, of its place and wanted, and nothing that is deleted", async () => {
  const { steps, add, left } = await openTail();
  await add("before");
  expect(shown(await next(steps))).toBe("resumed");
  await add("elsewhere", { environment: "prod" });
  await add("none", { operation: "unwanted" });
  await add("one");
  expect(shown(await next(steps))).toBe("one");
  const waiting = next(steps);
  await add("two");
  expect(shown(await waiting)).toBe("two");
  const end = steps.next();
  left.abort();
  expect((await end).done).toBe(true);
});

it("leaves out the oldest for a reader that is slow, and says how many", async () => {
  const { steps, add } = await openTail();
  await next(steps);
  const ids = Array.from({ length: 1_010 }, (_, i) => `log-${String(i).padStart(4, "0")}`);
  await Promise.all(ids.map((id) => add(id)));
  expect(await next(steps)).toMatchObject({ kind: "gap", missed: 10 });
  const rest: unknown[] = [];
  for (let i = 0; i < 1_000; i += 1) rest.push(shown(await next(steps)));
  expect(rest).toEqual(ids.slice(10));
  await steps.return(undefined);
});

it("goes on with a gap after the store has lost its history", async () => {
  const { steps, add, lose } = await openTail();
  await next(steps);
  lose();
  expect(await next(steps)).toMatchObject({ kind: "gap", missed: 0 });
  await add("later");
  expect(shown(await next(steps))).toBe("later");
  await steps.return(undefined);
});

it("refuses more tails than a process can feed, and gives places back", async () => {
  const { tail, logs } = await openTail();
  const request = { under: ["dev"], isWanted: () => true, signal: new AbortController().signal };
  const all = Array.from({ length: 256 }, () => tail(logs, request));
  for (const one of all) await one.next();
  await expect(tail(logs, request).next()).rejects.toMatchObject({ code: "overloaded" });
  await all[0]?.return(undefined);
  expect((await tail(logs, request).next()).value).toMatchObject({ kind: "resumed" });
});
