import { create } from "@bufbuild/protobuf";
import { describe, expect, it, onTestFinished } from "vitest";
import { lookupSpace } from "../../../../../src/broker/connections/connection-collections.ts";
import { lookupRowKeys, lookupRowSpace } from "../../../../../src/broker/connections/lookup/lookup-rows.ts";
import type { Lookup } from "../../../../../src/core/notifications/notification.ts";
import { ConnectionImportSchema } from "../../../../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationSchema } from "../../../../../src/gen/latchkey/v1/integration_pb.ts";
import type { Store } from "../../../../../src/store/contract.ts";
import { under } from "../../../../../src/store/keys.ts";
import { localSealKey } from "../../../../../src/store/sealed/seal-key.ts";
import { openSealedStore } from "../../../../../src/store/sealed/sealed.ts";
import { postgresForFile } from "../../../../support/postgres/stores.ts";
import { below, faultSeed, seeded } from "../../../../support/runner/seeded.ts";
import { lacks } from "../../../../support/sidecar/needs.ts";
import { type OpenBroker, openTestBroker, refOf } from "../../open-broker.ts";
import { openTestStore, type TestWorld, testWorld } from "../../world.ts";

interface Replica {
  readonly open: OpenBroker;
  readonly world: TestWorld;
}

const minute = 60_000;
const inCalendar = { environment: "dev", integration: "calendar" };
const uris = Array.from({ length: 12 }, (_, n) => `https://calendar.example/${n}`);
const emails = Array.from({ length: 6 }, (_, n) => `user-${n}@example.com`);
const uriField = "metadata.calendarWatchResourceUris";
/** Every value alone, two values of one notification, and rules after one that may match nothing. */
const questions: readonly (readonly Lookup[])[] = [
  ...uris.map((uri) => [{ rule: 0, field: uriField, values: [uri] }]),
  ...emails.map((email, n) => [
    { rule: 0, field: uriField, values: [uris[n] ?? "", "https://calendar.example/none"] },
    { rule: 2, field: "metadata.email", values: [email, emails[0] ?? ""] },
  ]),
  [{ rule: 1, field: "metadata.email", values: ["nobody@example.com"] }],
];

async function answersOf({ open: { broker, store } }: Replica): Promise<string[]> {
  await store.caughtUp();
  const answers: string[] = [];
  for (const lookups of questions) {
    const { rule, matches } = await broker.resources.match(inCalendar, lookups);
    const ids = matches.map(({ id }) => id).toSorted();
    answers.push(`${rule}: ${ids.join(" ")}`);
  }
  return answers;
}

const isStored = ({ open: { broker } }: Replica): boolean => broker.resources.match(inCalendar, []) instanceof Promise;

async function changeSome(replicas: readonly Replica[], { random, count }: { random: () => number; count: number }) {
  for (let i = 0; i < count; i += 1) {
    const replica = replicas[below(random, replicas.length)];
    const id = `c${below(random, 40)}`;
    const metadata = {
      calendarWatchResourceUris: uris.filter(() => random() < 0.15),
      ...(random() < 0.5 ? { email: emails[below(random, emails.length)] ?? "" } : {}),
    };
    const { connections, imports } = replica?.open.broker ?? {};
    const isThere = (await connections?.getMany([refOf(id)]))?.[0] !== undefined;
    const credentials = { kind: { case: "oauth2" as const, value: { accessToken: "a" } } };
    if (!isThere) {
      await imports?.importOne(create(ConnectionImportSchema, { ...inCalendar, id, credentials, metadata }), "test");
    } else if (random() < 0.4) {
      await connections?.delete({ ref: refOf(id), expectedRevision: 0n }, "test");
    } else {
      const update = { ref: refOf(id), metadata, replace: random() < 0.5, expectedRevision: 0n };
      await connections?.updateMetadata([update], "test");
    }
  }
}

async function rowsOf(store: Store): Promise<string[]> {
  return (await store.list({ ...under(lookupRowSpace), limit: Number.MAX_SAFE_INTEGER })).map(({ key }) => key);
}

/** The rows that follow from the lookups of all connections. */
async function wantedRows(store: Store): Promise<string[]> {
  const all = under(lookupSpace);
  const found = await store.list({ ...all, limit: Number.MAX_SAFE_INTEGER });
  return found.flatMap(({ key, value }) => lookupRowKeys(key.slice(all.from.length), value)).toSorted();
}

async function openReplica(beside: Pick<OpenBroker, "store" | "backend">, lookupBytes?: number): Promise<Replica> {
  const world = testWorld();
  return {
    world,
    open: await openTestBroker(world, { beside, ...(lookupBytes === undefined ? {} : { lookupBytes }) }),
  };
}

async function setUp({ open: { broker } }: Replica): Promise<void> {
  const settings = { forwardUrl: "", secondaryForwardUrl: "", allowedOrigins: [] };
  await broker.environments.create({ name: "dev", ...settings }, "test");
  const secrets = { clientSecret: "the-client-secret" };
  const calendar = { environment: "dev", key: "calendar", provider: "google-calendar", oauth: { clientId: "id" } };
  await broker.integrations.create(create(IntegrationSchema, { ...calendar, secrets }), "test");
}

/** Scans twice, and waits until the index has left memory. */
async function moveToStore(replica: Replica, between: () => Promise<void> = async () => {}): Promise<void> {
  await expect.poll(async () => (await replica.open.collections.lookupRows.get("all")) !== undefined).toBe(true);
  await replica.open.broker.keepHouse();
  expect(isStored(replica)).toBe(false);
  await between();
  replica.world.advance(16 * minute);
  await replica.open.broker.keepHouse();
  await expect.poll(() => isStored(replica)).toBe(true);
}

/** Opens the sealed store of each of these, or all over the first. */
type OpenStores = () => Promise<readonly Pick<OpenBroker, "store" | "backend">[]>;

const sealKeys = [localSealKey({ id: "test", secret: Buffer.alloc(32, 7) })];

const level: OpenStores = async () => {
  const world = testWorld();
  const backend = await openTestStore(world);
  const one = { backend, store: await openSealedStore({ backend, keys: sealKeys, world }) };
  onTestFinished(() => one.store.close());
  return [one, one];
};

async function compare(openStores: OpenStores): Promise<void> {
  const seed = faultSeed();
  const random = seeded(seed);
  const [first, second] = await openStores();
  if (first === undefined || second === undefined) throw new Error("two stores are opened");
  const memory = await openReplica(first);
  await setUp(memory);
  await changeSome([memory], { random, count: 40 });
  // The store has connections without rows, and a replica with a lower limit starts.
  const small = await openReplica(second, 0);
  const both = [memory, small];
  const same = async (when: string) =>
    expect(await answersOf(small), `seed ${seed}, ${when}`).toEqual(await answersOf(memory));
  await same("before rows");
  await moveToStore(small, async () => {
    await changeSome(both, { random, count: 30 });
    await same("between the scans");
  });
  for (let round = 0; round < 8; round += 1) {
    await same(`round ${round}`);
    await same(`round ${round}, recent answers`);
    await changeSome(both, { random, count: 1 + below(random, 12) });
  }
  await same("at the end");
  expect(await rowsOf(first.store), `seed ${seed}`).toEqual(await wantedRows(first.store));
  expect(isStored(memory)).toBe(false);
}

it("finds in the store what memory finds, through random changes", () => compare(level), 60_000);

describe.skipIf(lacks("postgres"))("with replicas over PostgreSQL", () => {
  const file = postgresForFile();
  it("finds in the store what memory finds, through random changes", async () => {
    const schema = file.newSchema();
    await compare(async () => {
      const opened = [];
      for (let i = 0; i < 2; i += 1) {
        const world = testWorld();
        const { store: backend } = await file.open({ schema });
        const store = await openSealedStore({ backend, keys: sealKeys, world });
        onTestFinished(() => store.close());
        opened.push({ backend, store });
      }
      return opened;
    });
  });
});

async function openSmall(): Promise<Replica> {
  const world = testWorld();
  return { world, open: await openTestBroker(world, { lookupBytes: 0 }) };
}

async function importWith({ open: { broker } }: Replica, id: string, uri: string): Promise<void> {
  const credentials = { kind: { case: "oauth2" as const, value: { accessToken: "a" } } };
  const metadata = { calendarWatchResourceUris: [uri] };
  await broker.imports.importOne(create(ConnectionImportSchema, { ...inCalendar, id, credentials, metadata }), "test");
}
const idsOf = async ({ open: { broker } }: Replica, uri: string) =>
  (await broker.resources.match(inCalendar, [{ rule: 0, field: uriField, values: [uri] }])).matches.map(({ id }) => id);

it("starts in the store once its lookups exceeded the limit, and in memory with a higher limit", async () => {
  const small = await openSmall();
  await importWith(small, "a", "uri-a");
  await moveToStore(small);
  const again = await openReplica(small.open, 0);
  expect([isStored(again), await idsOf(again, "uri-a")]).toEqual([true, ["a"]]);
  const large = await openReplica(small.open, 1_000_000_000);
  expect([isStored(large), await idsOf(large, "uri-a")]).toEqual([false, ["a"]]);
});

it("does not believe a row that the connection's lookups contradict", async () => {
  const small = await openSmall();
  await importWith(small, "a", "uri-a");
  await moveToStore(small);
  const [row = ""] = await rowsOf(small.open.store);
  const value = new Uint8Array();
  await small.open.store.commit([
    { key: row.replace(/a$/, "gone"), value },
    { key: row.replace(/a$/, "other"), value },
  ]);
  await importWith(small, "other", "uri-other");
  expect([await idsOf(small, "uri-a"), await idsOf(small, "uri-other")]).toEqual([["a"], ["other"]]);
});

it("continues a scan where a killed process stopped, and the second scan finds what it left out", async () => {
  const small = await openSmall();
  for (const id of ["a", "b", "c"]) await importWith(small, id, `uri-${id}`);
  const { store, broker, collections } = small.open;
  await expect.poll(async () => (await collections.lookupRows.get("all")) !== undefined).toBe(true);
  await broker.keepHouse();
  const before = await collections.lookupRows.get("all");
  if (before === undefined) throw new Error("no rows were asked for");
  const { notBefore: _, ...value } = before.value;
  const after = { ...value, walksLeft: 2, scanned: 2n, after: `${under(lookupSpace, "dev", "calendar").from}b` };
  const none = (await rowsOf(store)).map((key) => ({ key, value: undefined }));
  await store.commit([...none, ...collections.lookupRows.change({ before, after })]);
  await broker.keepHouse();
  expect((await rowsOf(store)).map((key) => key.slice(-1))).toEqual(["c"]);
  small.world.advance(11_000);
  await broker.keepHouse();
  expect(await rowsOf(store)).toEqual(await wantedRows(store));
  await expect.poll(() => isStored(small)).toBe(true);
  expect(await Promise.all(["uri-a", "uri-b", "uri-c"].map((uri) => idsOf(small, uri)))).toEqual([["a"], ["b"], ["c"]]);
});

it("returns to memory when the store lost the end of its history", async () => {
  const small = await openSmall();
  await importWith(small, "a", "uri-a");
  await moveToStore(small);
  const { store, collections } = small.open;
  const before = await collections.lookupRows.get("all");
  await store.commit(collections.lookupRows.change({ before, after: undefined }));
  const rows = await rowsOf(store);
  await store.commit(rows.map((key) => ({ key, value: undefined })));
  expect(await idsOf(small, "uri-a")).toEqual(["a"]);
});

it("removes the rows of an emptied environment", async () => {
  const small = await openSmall();
  for (const id of ["a", "b"]) await importWith(small, id, `uri-${id}`);
  await moveToStore(small);
  expect(await idsOf(small, "uri-b")).toEqual(["b"]);
  await small.open.broker.declare({
    environments: [],
    signingSecrets: [],
    policies: [],
    variables: [],
    integrations: [],
    providers: [],
    keys: [],
  });
  await small.open.broker.emptyings.empty({ environment: "dev", keepGrant: true }, "test");
  await expect.poll(() => rowsOf(small.open.store)).toEqual([]);
  expect(await idsOf(small, "uri-b")).toEqual([]);
});
