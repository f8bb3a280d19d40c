import { create } from "@bufbuild/protobuf";
import { expect, it, onTestFinished } from "vitest";
import { createCollections } from "../../../../../src/broker/collections.ts";
import { lookupSpace } from "../../../../../src/broker/connections/connection-collections.ts";
import { lookupDigest } from "../../../../../src/broker/connections/lookup/connection-lookups.ts";
import { createLookupFields } from "../../../../../src/broker/connections/lookup/lookup-fields.ts";
import { openReindex, type Reindex } from "../../../../../src/broker/connections/lookup/reindex.ts";
import { ConnectionImportSchema, ConnectionSchema } from "../../../../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationSchema } from "../../../../../src/gen/latchkey/v1/integration_pb.ts";
import { ProviderSchema } from "../../../../../src/gen/latchkey/v1/provider_pb.ts";
import type { Change } from "../../../../../src/store/contract.ts";
import { keyOf } from "../../../../../src/store/keys.ts";
import { createLeases } from "../../../../../src/store/leases.ts";
import { type OpenBroker, openTestBroker, refOf } from "../../open-broker.ts";
import { testWorld } from "../../world.ts";

const minute = 60_000;
const filedKey = (id: string) => keyOf(lookupSpace, "dev", "calendar", id);
/** The index is in memory, which answers at once. */
function idsOf({ broker }: OpenBroker, email: string): readonly string[] {
  const lookup = { rule: 0, field: "metadata.email", values: [email] };
  const found = broker.resources.match({ environment: "dev", integration: "calendar" }, [lookup]);
  if (found instanceof Promise) throw new Error("the index is not in memory");
  return found.matches.map(({ id }) => id);
}

async function importWith(open: OpenBroker, id: string, email: string): Promise<void> {
  const item = create(ConnectionImportSchema, {
    environment: "dev",
    integration: "calendar",
    id,
    credentials: { kind: { case: "oauth2", value: { accessToken: "a" } } },
    metadata: { email },
  });
  await open.broker.imports.importOne(item, "test");
}

/** Writes like an older version that has no lookup index. */
async function changedByAnOlderVersion({ store }: OpenBroker, id: string, email: string): Promise<void> {
  const { connections } = createCollections(store, { fieldsOf: () => [] });
  const before = await connections.get("dev", "calendar", id);
  if (before === undefined) throw new Error("there is no such connection");
  await store.commit(connections.change({ before, after: { ...before.value, metadata: { email } } }));
}
const filingOf = async ({ collections }: OpenBroker) => (await collections.lookupFilings.get("google-calendar"))?.value;

it("indexes connections of an older version, page by page", async () => {
  const open = await openTestBroker(testWorld());
  const ids = Array.from({ length: 230 }, (_, n) => `c${String(n).padStart(3, "0")}`);
  for (const id of ids) await importWith(open, id, `${id}@example.com`);
  await open.store.commit(ids.map((id) => ({ key: filedKey(id), value: undefined })));
  expect(ids.filter((id) => idsOf(open, `${id}@example.com`).length > 0)).toEqual([]);
  await open.broker.keepHouse();
  expect(ids.flatMap((id) => idsOf(open, `${id}@example.com`))).toEqual(ids);
  expect((await filingOf(open))?.fields).toEqual([
    "connection_config.emailAddressHash",
    "grant:",
    "metadata.calendarWatchResourceUris",
    "metadata.email",
    "metadata.emailAddress",
    "metadata.googleCalendarChannelId",
    "metadata.googleCalendarResourceId",
    "metadata.googleCalendarWatchResourceUris",
  ]);
});

it("indexes the accounts of grants that an older version did not", async () => {
  const open = await openTestBroker(testWorld());
  const account = "a".repeat(64);
  const { connections } = createCollections(open.store, { fieldsOf: () => [] });
  const after = create(ConnectionSchema, {
    ref: refOf("old"),
    provider: "google-calendar",
    connectionConfig: { emailAddressHash: account },
  });
  await open.store.commit(connections.change({ before: undefined, after }));
  const idsOfGrant = async () =>
    (await connections.pageBy("grant", { under: ["dev", "calendar", account], limit: 2 })).map(
      ({ value }) => value.ref?.id,
    );
  expect(await idsOfGrant()).toEqual([]);
  await open.broker.keepHouse();
  expect(await idsOfGrant()).toEqual(["old"]);
});

it("scans a second time for changes of replicas with an older version, and then stops", async () => {
  const world = testWorld();
  const open = await openTestBroker(world);
  for (const id of ["changed", "deleted"]) await importWith(open, id, `${id}@example.com`);
  await open.broker.keepHouse();
  expect(await filingOf(open)).toMatchObject({ walksLeft: 1 });

  await changedByAnOlderVersion(open, "changed", "new@example.com");
  await open.store.commit([{ key: keyOf("connection", "dev", "calendar", "deleted"), value: undefined }]);
  world.advance(14 * minute);
  await open.broker.keepHouse();
  expect([idsOf(open, "new@example.com"), idsOf(open, "deleted@example.com")]).toEqual([[], ["deleted"]]);
  world.advance(2 * minute);
  await open.broker.keepHouse();
  expect([idsOf(open, "new@example.com"), idsOf(open, "deleted@example.com")]).toEqual([["changed"], []]);
  expect(idsOf(open, "changed@example.com")).toEqual([]);

  const { revision } = open.store.status();
  expect(await filingOf(open)).toMatchObject({ walksLeft: 0 });
  world.advance(60 * minute);
  await open.broker.keepHouse();
  expect(await filingOf(open)).toMatchObject({ walksLeft: 0 });
  // Housekeeping renews its lease: nothing else is written.
  expect(open.store.status().revision - revision).toBeLessThanOrEqual(1);
});

it("runs under a lease, and continues where the last holder stopped", async () => {
  const open = await openTestBroker(testWorld());
  const ids = ["a", "b", "c"];
  for (const id of ids) await importWith(open, id, `${id}@example.com`);
  // Would show a restart of the scan: this integration comes first.
  const earlier = { environment: "dev", key: "a-calendar", provider: "google-calendar" };
  await open.broker.integrations.create(create(IntegrationSchema, earlier), "test");
  await open.broker.keepHouse();
  const orphan = keyOf(lookupSpace, "dev", "a-calendar", "nobody");
  await open.store.commit([{ key: orphan, value: new Uint8Array(16) }]);
  const { lookupFilings } = open.collections;
  const before = await lookupFilings.get("google-calendar");
  if (before === undefined) throw new Error("nothing was filed");
  // A process that ended in the middle of its first look.
  const { notBefore: _, ...rest } = before.value;
  const after = { ...rest, walksLeft: 2, after: refOf("b") };
  await open.store.commit([
    ...ids.map((id) => ({ key: filedKey(id), value: undefined })),
    ...lookupFilings.change({ before, after }),
  ]);
  const lease = await createLeases(open.store).take("lookup-filing", 60_000);
  await open.broker.keepHouse();
  expect(ids.flatMap((id) => idsOf(open, `${id}@example.com`))).toEqual([]);
  await lease?.release();
  await open.broker.keepHouse();
  expect(ids.flatMap((id) => idsOf(open, `${id}@example.com`))).toEqual(["c"]);
  expect(await open.store.get(orphan)).toBeDefined();
});

/** Indexes as a broker does, over a store that the test intercepts, for a provider with the test's fields. */
async function openFiling(before: (changes: readonly Change[], filing: Reindex) => Promise<void>) {
  const world = testWorld();
  const { store } = await openTestBroker(world);
  let provider = withField("metadata.email");
  const fields = createLookupFields();
  fields.askOf({ lookUp: () => provider });
  const collections = createCollections(store, { fieldsOf: fields.of });
  const filing: Reindex = await openReindex({
    store: {
      ...store,
      async commit(changes, conditions) {
        await before(changes, filing);
        return store.commit(changes, conditions);
      },
    },
    collections,
    fields,
    world,
  });
  onTestFinished(() => filing.close());
  const put = async (id: string, email: string) =>
    store.commit(
      collections.connections.change({
        before: await collections.connections.get("dev", "calendar", id),
        after: create(ConnectionSchema, {
          ref: refOf(id),
          provider: "google-calendar",
          metadata: { email, other: id },
        }),
      }),
    );
  return {
    filing,
    put,
    lookIn(field: string) {
      provider = withField(field);
    },
    isFiledUnder: async (id: string, field: string, value: string) => {
      const filed = Buffer.from((await store.get(filedKey(id)))?.value ?? []).toString("latin1");
      return filed === lookupDigest({ environment: "dev", integration: "calendar", field }, value);
    },
  };
}
const withField = (field: string) =>
  create(ProviderSchema, { name: "google-calendar", notification: { lookups: [{ field, value: "v" }] } });

it("never overwrites a concurrent change of a connection", async () => {
  let isFirst = true;
  const open = await openFiling(async (changes) => {
    if (!isFirst || !changes.some(({ key }) => key === filedKey("a"))) return;
    isFirst = false;
    await open.put("a", "new@example.com");
  });
  open.lookIn("metadata.other");
  await open.put("a", "old@example.com");
  open.lookIn("metadata.email");
  await open.filing.run();
  expect(isFirst).toBe(false);
  expect(await open.isFiledUnder("a", "metadata.email", "new@example.com")).toBe(true);
});

it("includes a change that arrives just before its end", async () => {
  let isFirst = true;
  const open = await openFiling(async (changes, filing) => {
    const isGivenBack = changes.some(({ key, value }) => key.startsWith("lease") && value === undefined);
    if (!isFirst || !isGivenBack) return;
    isFirst = false;
    open.lookIn("metadata.other");
    filing.look();
  });
  await open.put("a", "a@example.com");
  await open.filing.run();
  expect(isFirst).toBe(false);
  expect(await open.isFiledUnder("a", "metadata.other", "a")).toBe(true);
});

it("does not undo the index of a replica with a newer catalogue", async () => {
  const open = await openTestBroker(testWorld());
  await importWith(open, "a", "a@example.com");
  await open.broker.keepHouse();
  const { lookupFilings } = open.collections;
  const before = await lookupFilings.get("google-calendar");
  if (before === undefined) throw new Error("nothing was filed");
  const after = { ...before.value, fields: ["metadata.newer"] };
  await open.store.commit(lookupFilings.change({ before, after }));
  await open.broker.declare({
    environments: [],
    signingSecrets: [],
    policies: [],
    variables: [],
    integrations: [],
    providers: [],
    keys: [],
  });
  await open.broker.keepHouse();
  expect((await filingOf(open))?.fields).toEqual(["metadata.newer"]);
});

it("commits nothing without connections, and starts with the first", async () => {
  const open = await openTestBroker(testWorld());
  await open.broker.keepHouse();
  const { revision } = open.store.status();
  await open.broker.keepHouse();
  expect(await filingOf(open)).toBeUndefined();
  expect(open.store.status().revision - revision).toBeLessThanOrEqual(1);
  await importWith(open, "a", "a@example.com");
  await open.broker.keepHouse();
  expect(await filingOf(open)).toMatchObject({ walksLeft: 1 });
});
