import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { noScripts, type ScriptHost } from "../../../../src/core/scripts/script.ts";
import { newRun, newSync, runOf, runOrderKey } from "../../../../src/core/scripts/sync-state.ts";
import { Run_State, Script_Kind } from "../../../../src/gen/latchkey/v1/sync_pb.ts";
import { StoreUnavailable } from "../../../../src/store/contract.ts";
import type { SealedStore } from "../../../../src/store/sealed/sealed.ts";
import { type OpenBroker, openTestBroker, refOf } from "../open-broker.ts";
import { testWorld } from "../world.ts";
import { dailySync } from "./daily-sync.ts";

const termMs = 1_500;
const day = 86_400_000;
const place = { ref: refOf("ada"), name: "things", variant: "base" };

/** Blocks callers until it is opened. */
function createGate() {
  let open: () => void = () => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  let reach: () => void = () => undefined;
  const reached = new Promise<void>((resolve) => {
    reach = resolve;
  });
  const pass = async () => {
    reach();
    await opened;
  };
  return { open, reached, pass };
}

/** A host whose only script waits at the gate. */
function hostBehind(pass: () => Promise<void>): ScriptHost & { readonly ran: string[] } {
  const ran: string[] = [];
  return {
    ...noScripts,
    ran,
    all: () => [dailySync],
    find: ({ kind, name }) => (kind === "sync" && name === dailySync.name ? dailySync : undefined),
    async run(_, { facts }) {
      ran.push(facts.runId);
      await pass();
      return { kind: "done", output: undefined };
    },
  };
}

const atOnce = () => Promise.resolve();

/** A replica that has all partitions and falls silent, and another over the same store. */
async function openTwo(see: (store: SealedStore) => Partial<SealedStore>, running: () => Promise<void> = atOnce) {
  const [world, others] = [testWorld(), testWorld()];
  const fixture = await openTestBroker(testWorld());
  await fixture.import("ada", { case: "oauth2", value: { accessToken: "token" } });
  let isSilent = false;
  const seen: Partial<SealedStore> = {
    ...see(fixture.store),
    async commit(changes, conditions) {
      if (isSilent && changes.some(({ key }) => key.startsWith("member\0"))) throw new StoreUnavailable("cut off");
      return fixture.store.commit(changes, conditions);
    },
  };
  const hosts = { held: hostBehind(atOnce), other: hostBehind(running) };
  const held = await openTestBroker(world, {
    ...{ scripts: hosts.held, workTermMs: termMs },
    beside: { backend: fixture.backend, store: { ...fixture.store, ...seen } },
  });
  const other = await openTestBroker(others, { scripts: hosts.other, workTermMs: termMs, beside: fixture });
  const silence = () => {
    isSilent = true;
    return sleep(termMs * 1.5);
  };
  return { fixture, held, other, world, hosts, silence };
}

async function addSync({ store, collections }: OpenBroker, autoStart: boolean): Promise<void> {
  const after = newSync({ ...place, autoStart, nowMs: testWorld().now() });
  await store.commit(collections.syncs.change({ before: undefined, after }));
}

const statesIn = async ({ collections }: OpenBroker) =>
  (await collections.runs.page({ under: ["dev"], limit: 100 })).map(({ value }) => runOf(value).state);

it("takes no run of another replica's for interrupted, once that one has the partition", async () => {
  const [looking, running] = [createGate(), createGate()];
  const two = await openTwo(
    (store) => ({
      async list(range) {
        if (range.from.startsWith("run.running")) await looking.pass();
        return store.list(range);
      },
    }),
    running.pass,
  );
  await addSync(two.fixture, true);
  const heldUp = two.held.broker.keepRuns();
  await looking.reached;
  await two.silence();
  const kept = two.other.broker.keepRuns();
  await running.reached;
  looking.open();
  await heldUp;
  expect(await statesIn(two.fixture)).toEqual([Run_State.RUNNING]);
  running.open();
  await kept;
  expect(await statesIn(two.fixture)).toEqual([Run_State.SUCCEEDED]);
});

it("puts no run down once another replica has the partition", async () => {
  const looking = createGate();
  const two = await openTwo((store) => ({
    async list(range) {
      if (range.from.startsWith("sync.due")) await looking.pass();
      return store.list(range);
    },
  }));
  await addSync(two.fixture, true);
  // By its clock the sync is due again and again.
  two.world.advance(2 * day);
  const heldUp = two.held.broker.keepRuns();
  await looking.reached;
  await two.silence();
  await two.other.broker.keepRuns();
  looking.open();
  await heldUp;
  expect(await statesIn(two.fixture)).toEqual([Run_State.SUCCEEDED]);
});

it("starts no run once another replica has the partition", async () => {
  const [beginning, running] = [createGate(), createGate()];
  let isOthers = false;
  const two = await openTwo(
    (store) => ({
      async get(key) {
        if (key.endsWith("\0r1") && !isOthers) await beginning.pass();
        return store.get(key);
      },
    }),
    running.pass,
  );
  await addSync(two.fixture, false);
  const { store, collections } = two.fixture;
  const dueMs = testWorld().now();
  const add = (id: string) =>
    store.commit(
      collections.runs.change({
        before: undefined,
        after: newRun({
          ...{ ...place, id, kind: Script_Kind.SYNC, cause: "trigger", lane: runOrderKey(place, "exec") },
          ...{ dueMs, environmentId: "" },
        }),
      }),
    );
  await add("r1");
  const heldUp = two.held.broker.keepRuns();
  await beginning.reached;
  await two.silence();
  // The other replica starts one with the same order key first.
  await store.commit(await removed(two.fixture, "r1"));
  await add("r0");
  const kept = two.other.broker.keepRuns();
  await running.reached;
  await add("r1");
  isOthers = true;
  beginning.open();
  await heldUp;
  expect(await statesIn(two.fixture)).toEqual([Run_State.RUNNING, Run_State.QUEUED]);
  expect(two.hosts.held.ran).toEqual([]);
  running.open();
  await kept;
  expect(two.hosts.other.ran).toEqual(["r0", "r1"]);
});

async function removed({ collections }: OpenBroker, id: string) {
  return collections.runs.change({ before: await collections.runs.get("dev", id), after: undefined });
}
