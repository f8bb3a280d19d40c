import { create } from "@bufbuild/protobuf";
import { expect, it, onTestFinished } from "vitest";
import { type Collections, createCollections } from "../../../../src/broker/collections.ts";
import { createConnectionCensus } from "../../../../src/broker/connections/census/census.ts";
import type { ConnectionQuery } from "../../../../src/broker/connections/connection-sources.ts";
import {
  type ConnectionListing,
  createConnectionListing,
  lookedAtPerCall,
} from "../../../../src/broker/connections/search.ts";
import { Connection_State, ConnectionSchema } from "../../../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationSchema } from "../../../../src/gen/latchkey/v1/integration_pb.ts";
import type { Store } from "../../../../src/store/contract.ts";
import { keyOf } from "../../../../src/store/keys.ts";
import { openTestStore, testWorld } from "../world.ts";

const everything: ConnectionQuery = { environment: "dev", integrations: [], id: "", tags: {}, states: [], search: "" };
const ask = (some: Partial<ConnectionQuery>): ConnectionQuery => ({ ...everything, ...some });

interface Place {
  readonly integration?: string;
  readonly id: string;
  readonly environment?: string;
  readonly tags?: Record<string, string>;
  readonly state?: Connection_State;
}

async function put(collections: Collections, store: Store, places: readonly Place[]): Promise<void> {
  const changes = places.flatMap(
    ({ integration = "a", id, environment = "dev", tags = {}, state = Connection_State.ACTIVE }) =>
      collections.connections.change({
        before: undefined,
        after: create(ConnectionSchema, { ref: { environment, integration, id }, tags, state }),
      }),
  );
  await store.commit(changes);
}

async function openListing(places: readonly Place[]) {
  const store = await openTestStore(testWorld());
  const collections = createCollections(store, { fieldsOf: () => [] });
  const integrations = new Set(places.map(({ integration = "a" }) => integration));
  await store.commit(
    [...integrations].flatMap((key) =>
      collections.integrations.change({
        before: undefined,
        after: create(IntegrationSchema, { environment: "dev", key, provider: "p" }),
      }),
    ),
  );
  await put(collections, store, places);
  const census = createConnectionCensus({ store, world: testWorld() });
  onTestFinished(() => census.close());
  return { store, collections, listing: createConnectionListing(collections, census) };
}

const refsOf = ({ items }: Awaited<ReturnType<ConnectionListing["list"]>>) =>
  items.map(({ ref }) => `${ref?.integration}/${ref?.id}`);

/** All pages of this size. */
async function pagesOf(
  listing: ConnectionListing,
  query: ConnectionQuery,
  size: number,
): Promise<readonly (readonly string[])[]> {
  const pages: (readonly string[])[] = [];
  for (let token = ""; ; ) {
    const page = await listing.list(query, { size, token });
    pages.push(refsOf(page));
    if (page.next === "") return pages;
    token = page.next;
  }
}

const few: readonly Place[] = [
  { integration: "b", id: "1", tags: { team: "red", tier: "1" } },
  { integration: "a", id: "2", tags: { team: "red" }, state: Connection_State.REAUTHORIZATION_REQUIRED },
  { integration: "a", id: "1", tags: { team: "blue" } },
  { integration: "c", id: "10" },
  { integration: "c", id: "2", tags: { team: "red" } },
  { integration: "a", id: "1", environment: "prod", tags: { team: "red" } },
];

it("lists in the order of integration and id with any filter, within its environment", async () => {
  const { listing } = await openListing(few);
  const of = async (some: Partial<ConnectionQuery>) => refsOf(await listing.list(ask(some), { size: 100, token: "" }));
  expect(await of({})).toEqual(["a/1", "a/2", "b/1", "c/10", "c/2"]);
  expect(await of({ tags: { team: "red" } })).toEqual(["a/2", "b/1", "c/2"]);
  expect(await of({ id: "1" })).toEqual(["a/1", "b/1"]);
  expect(await of({ integrations: ["c", "a", "c"] })).toEqual(["a/1", "a/2", "c/10", "c/2"]);
  expect(await of({ environment: "prod" })).toEqual(["a/1"]);
  expect(await of({ environment: "nowhere" })).toEqual([]);
});

it("lists only what all filters match", async () => {
  const { listing } = await openListing(few);
  const of = async (some: Partial<ConnectionQuery>) => refsOf(await listing.list(ask(some), { size: 100, token: "" }));
  expect(await of({ tags: { team: "red", tier: "1" } })).toEqual(["b/1"]);
  expect(await of({ tags: { tier: "1", team: "blue" } })).toEqual([]);
  expect(await of({ tags: { TEAM: "red" }, integrations: ["c"] })).toEqual(["c/2"]);
  expect(await of({ tags: { team: "red" }, id: "2" })).toEqual(["a/2", "c/2"]);
  expect(await of({ states: [Connection_State.REAUTHORIZATION_REQUIRED] })).toEqual(["a/2"]);
  expect(await of({ states: [Connection_State.REAUTHORIZATION_REQUIRED], id: "1" })).toEqual([]);
  expect(await of({ search: "0" })).toEqual(["c/10"]);
  expect(await of({ search: "1", integrations: ["a", "b"], tags: { team: "red" } })).toEqual(["b/1"]);
});

it.each([1, 2, 3, 5, 100])("shows each once, in pages of %i, with any filter", async (size) => {
  const { listing } = await openListing(few);
  for (const query of [
    everything,
    ask({ tags: { team: "red" } }),
    ask({ id: "1" }),
    ask({ integrations: ["a", "c"] }),
    ask({ integrations: ["nowhere"] }),
    ask({ search: "1" }),
  ]) {
    const pages = await pagesOf(listing, query, size);
    const whole = refsOf(await listing.list(query, { size: 100, token: "" }));
    expect(pages.flat()).toEqual(whole);
    // Without a search, only the last page may be short, and none is empty.
    if (query.search === "") expect(pages.map((page) => page.length)).toEqual(sizesOf(whole.length, size));
  }
});

/** The lengths of the pages for this number of entries. */
const sizesOf = (count: number, size: number): number[] =>
  count <= size ? [count] : [size, ...sizesOf(count - size, size)];

it("continues after a page although connections came and went before it", async () => {
  const { store, collections, listing } = await openListing(
    ["b", "d", "f", "h"].map((id) => ({ id, tags: { t: "x" } })),
  );
  for (const query of [everything, ask({ tags: { t: "x" } }), ask({ integrations: ["a"] })]) {
    const first = await listing.list(query, { size: 2, token: "" });
    expect(refsOf(first)).toEqual(["a/b", "a/d"]);
    await put(collections, store, [{ id: "a", tags: { t: "x" } }]);
    const before = await collections.connections.get("dev", "a", "a");
    await store.commit(collections.connections.change({ before, after: undefined }));
    expect(refsOf(await listing.list(query, { size: 2, token: first.next }))).toEqual(["a/f", "a/h"]);
  }
});

it("does not end a list by tag at an entry that is just being deleted", async () => {
  const { store, listing } = await openListing(["a", "c"].map((id) => ({ id, tags: { t: "x" } })));
  const gone = keyOf("connection.tag", "dev", "t", "x", "dev", "a", "b");
  await store.commit([{ key: gone, value: new Uint8Array() }]);
  expect((await pagesOf(listing, ask({ tags: { t: "x" } }), 1)).flat()).toEqual(["a/a", "a/c"]);
});

it("finds nothing by an impossible name", async () => {
  const { listing } = await openListing(few);
  for (const some of [
    { id: "\0" },
    { id: "1\0" },
    { integrations: ["a\0b"] },
    { tags: { "a\0": "b" } },
    { tags: { a: "b\0" } },
    { environment: "dev\0" },
    { search: "\0" },
    { idPrefix: "1\0" },
    { tags: JSON.parse('{"__proto__":"x"}') },
    { tags: { constructor: "x" } },
  ]) {
    expect(await listing.list(ask(some), { size: 10, token: "" })).toMatchObject({ items: [], next: "" });
  }
});

it("takes no token of another question, and one of the same though it is put in another way", async () => {
  const { listing } = await openListing(few);
  const asked = ask({ tags: { team: "red", tier: "1" }, integrations: ["b", "a"] });
  const { next } = await listing.list(ask({}), { size: 1, token: "" });
  await expect(listing.list(asked, { size: 1, token: next })).rejects.toMatchObject({ code: "invalid_query_params" });
  const wide = ask({ integrations: ["c", "a"] });
  const { next: token } = await listing.list(wide, { size: 2, token: "" });
  const same = ask({ integrations: ["a", "c", "a"] });
  expect(refsOf(await listing.list(same, { size: 10, token }))).toEqual(["c/10", "c/2"]);
});

it("refuses to count further than pages reach", async () => {
  const { listing } = await openListing(few);
  await expect(listing.list(everything, { size: 10, token: "", offset: 100_001 })).rejects.toMatchObject({
    code: "invalid_query_params",
  });
});

const many = 5_000;
const nameOf = (i: number) => `c-${String(i).padStart(5, "0")}`;

it("reads a limited number of connections a call without an index, and returns where to continue", async () => {
  const places = Array.from({ length: many }, (_, i) => ({ id: nameOf(i), integration: i % 2 === 0 ? "even" : "odd" }));
  const { store, listing } = await openListing(places);
  // The last of all there are.
  const query = ask({ search: nameOf(many - 1) });
  let read = 0;
  const { list } = store;
  store.list = async (range) => {
    const found = await list(range);
    read += found.length;
    return found;
  };
  onTestFinished(() => {
    store.list = list;
  });
  const pages: (readonly string[])[] = [];
  for (let token = ""; ; ) {
    read = 0;
    const page = await listing.list(query, { size: 10, token });
    expect(read).toBeLessThanOrEqual(lookedAtPerCall + 1);
    pages.push(refsOf(page));
    if (page.next === "") break;
    token = page.next;
  }
  expect(pages).toHaveLength(Math.ceil(many / lookedAtPerCall));
  expect(pages.flat()).toEqual([`odd/${nameOf(many - 1)}`]);
});

it("has a next page only if there are more", async () => {
  const { listing } = await openListing(Array.from({ length: lookedAtPerCall }, (_, i) => ({ id: nameOf(i) })));
  const { items, next } = await listing.list(everything, { size: lookedAtPerCall, token: "" });
  expect({ count: items.length, next }).toEqual({ count: lookedAtPerCall, next: "" });
  const half = await listing.list(everything, { size: lookedAtPerCall / 2, token: "" });
  expect(half.next).not.toBe("");
});

it("reaches any depth by cursor and by offset", async () => {
  const { listing } = await openListing(Array.from({ length: many }, (_, i) => ({ id: nameOf(i), tags: { t: "x" } })));
  const all = Array.from({ length: many }, (_, i) => `a/${nameOf(i)}`);
  for (const query of [everything, ask({ tags: { t: "x" } }), ask({ integrations: ["a"] })]) {
    expect((await pagesOf(listing, query, 700)).flat()).toEqual(all);
    const page = await listing.list(query, { size: 3, token: "", offset: many - 2 });
    expect({ refs: refsOf(page), next: page.next }).toEqual({ refs: all.slice(-2), next: "" });
    expect(refsOf(await listing.list(query, { size: 2, token: "", offset: many }))).toEqual([]);
  }
});
