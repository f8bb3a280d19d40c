import { beforeAll, expect, it } from "vitest";
import { sidecarOfFile } from "../../support/sidecar/door.ts";
import { keyedConnection } from "../../support/sidecar/harness.ts";

const running = sidecarOfFile();
const list = (query: string) => running().rest("GET", `/connections${query}`);
const idsOf = async (query: string): Promise<readonly string[]> =>
  (await list(query)).body.connections.map((one: { connection_id: string }) => one.connection_id);
const refusalOf = ({ status, body }: Awaited<ReturnType<typeof list>>) => ({ status, code: body.error?.code });
const refused = { status: 400, code: "invalid_query_params" };

beforeAll(async () => {
  const { rest } = running();
  const put = (body: object) => rest("POST", "/connections", { body });
  await Promise.all([
    put(
      keyedConnection("ada", { tags: { team: "red", tier: "1" }, end_user: { id: "u-ada", email: "Ada@Example.com" } }),
    ),
    put(keyedConnection("bob", { tags: { team: "red" }, end_user: { id: "u-bob", organization: { id: "acme" } } })),
    put(keyedConnection("cyd", { tags: { team: "blue" }, end_user: { id: "u-cyd", display_name: "Çydney 50%" } })),
    put({
      ...keyedConnection("ada"),
      provider_config_key: "calendar",
      credentials: { type: "OAUTH2", access_token: "t" },
    }),
  ]);
});

it.each([
  "limit=-1",
  "limit=0",
  "limit=1e9",
  "limit=2001",
  "limit=1.5",
  "limit=x",
  "limit=0x10",
  "limit=%2B1",
  "limit=99999999999999999999",
  "limit=1&limit=2",
  "page=-1",
  "page=x",
  "page=100000&limit=2000",
  "cursor=garbage",
  "cursor=AAAA",
  "cursor=%00",
  "cursor=é",
  `cursor=${"x".repeat(4_000)}`,
  "connectionId=a&connectionId=b",
  "search=a&search=b",
  "tags[a]=1&tags[a]=2",
  "tags[a]=1&tags[A]=2",
  "endUserId=u-ada&tags[end_user_id]=u-bob",
])("R18 takes no list that asks for %s", async (query) => {
  const answer = await list(`?${query}`);
  expect(refusalOf(answer)).toEqual(refused);
  const [name = ""] = query.split("=");
  expect(answer.body.error.errors[0].path[0].toLowerCase()).toBe(name.toLowerCase());
});

it("R18 takes no cursor of another filter, nor one that was changed", async () => {
  const { next_cursor: cursor } = (await list("?limit=1")).body;
  expect(cursor).toBeTypeOf("string");
  expect(await idsOf(`?limit=1&cursor=${cursor}`)).toHaveLength(1);
  expect(await idsOf(`?limit=2&cursor=${cursor}`)).toHaveLength(2);
  for (const query of ["integrationId=keyed", "tags[team]=red", "search=a", "connectionId=ada", "endUserId=u-ada"]) {
    expect(refusalOf(await list(`?limit=1&${query}&cursor=${cursor}`))).toEqual(refused);
  }
  expect(refusalOf(await list(`?cursor=A${cursor}`))).toEqual(refused);
  expect(refusalOf(await list(`?cursor=${cursor}=`))).toEqual(refused);
});

it("R18 continues by a cursor although the filter is written differently", async () => {
  const { next_cursor: cursor } = (await list("?limit=1&integrationId=keyed,calendar&tags[team]=red")).body;
  expect(await idsOf(`?tags[TEAM]=red&integrationId=calendar&integrationId=keyed,keyed&cursor=${cursor}`)).toEqual([
    "bob",
  ]);
});

it("lists by every filter, and by all of them together", async () => {
  expect(await idsOf("")).toEqual(["ada", "ada", "bob", "cyd"]);
  expect(await idsOf("?connectionId=ada")).toEqual(["ada", "ada"]);
  expect(await idsOf("?connectionId=ada&integrationId=keyed")).toEqual(["ada"]);
  expect(await idsOf("?integrationId=keyed,calendar")).toEqual(["ada", "ada", "bob", "cyd"]);
  expect(await idsOf("?integrationId=calendar&integrationId=keyed")).toHaveLength(4);
  expect(await idsOf("?integrationId=nowhere")).toEqual([]);
  expect(await idsOf("?tags[team]=red")).toEqual(["ada", "bob"]);
  expect(await idsOf("?tags[Team]=red&tags[tier]=1")).toEqual(["ada"]);
  expect(await idsOf("?tags[team]=RED")).toEqual([]);
  expect(await idsOf("?tags[team]=red&connectionId=cyd")).toEqual([]);
  expect(await idsOf("?endUserId=u-bob")).toEqual(["bob"]);
  expect(await idsOf("?endUserOrganizationId=acme")).toEqual(["bob"]);
  expect(await idsOf("?endUserId=u-ada&endUserOrganizationId=acme")).toEqual([]);
  expect(await idsOf("?endUserId=u-ada&tags[end_user_id]=u-ada")).toEqual(["ada"]);
  expect(await idsOf("?search=EXAMPLE.com")).toEqual(["ada"]);
  expect(await idsOf(`?search=${encodeURIComponent("çydney 50%")}`)).toEqual(["cyd"]);
  expect(await idsOf("?search=u-&integrationId=keyed")).toEqual(["ada", "bob", "cyd"]);
  expect(await idsOf("?search=u-&tags[team]=red&limit=1")).toEqual(["ada"]);
});

it("treats an empty filter as none, and counts and ignores unknown ones", async () => {
  expect(await idsOf("?connectionId=&search=&integrationId=&endUserId=&limit=&page=&cursor=")).toHaveLength(4);
  const before = (await running().metric('latchkey_ignored_fields_total{route="/connections"}')) ?? 0;
  expect(await idsOf("?env=dev&__proto__=1&constructor=2")).toHaveLength(4);
  expect(await running().metric('latchkey_ignored_fields_total{route="/connections"}')).toBe(before + 3);
});

it.each([
  "connectionId=%00",
  "integrationId=%00",
  "integrationId=keyed%00x",
  "tags[a]=%00",
  "tags[%00]=a",
  "endUserId=%00",
  "search=%00",
  "tags[__proto__]=x",
  "tags[constructor]=x",
  "tags[]=x",
  "tags[a]=",
  "search=%FF",
  "connectionId=%F0%9F%99%82",
  "integrationId=__proto__",
])("refuses to filter by %s", async (query) => {
  const answer = await list(`?${query}`);
  expect({ status: answer.status, body: answer.body }).toEqual({ status: 200, body: { connections: [] } });
});

it("lists connections without credentials, and with the fields that the SDK needs", async () => {
  const { body } = await list("?connectionId=bob");
  expect(body.connections).toEqual([
    {
      id: expect.any(Number),
      connection_id: "bob",
      provider_config_key: "keyed",
      provider: "example-api-key",
      created: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      metadata: {},
      tags: { team: "red", end_user_id: "u-bob", organization_id: "acme" },
      errors: [],
      missing_scopes: [],
      end_user: {
        id: "u-bob",
        email: null,
        display_name: null,
        tags: {},
        organization: { id: "acme", display_name: null },
      },
    },
  ]);
});

it("pages by number as by cursor, until there is no more", async () => {
  const byCursor: string[] = [];
  for (let cursor: string | undefined = ""; cursor !== undefined; ) {
    const { body } = await list(`?limit=1${cursor === "" ? "" : `&cursor=${cursor}`}`);
    byCursor.push(
      ...body.connections.map(
        (one: { provider_config_key: string; connection_id: string }) =>
          `${one.provider_config_key}/${one.connection_id}`,
      ),
    );
    cursor = body.next_cursor;
  }
  const byNumber: string[] = [];
  for (let page = 0; page < 5; page += 1) {
    const { body } = await list(`?limit=1&page=${page}`);
    byNumber.push(
      ...body.connections.map(
        (one: { provider_config_key: string; connection_id: string }) =>
          `${one.provider_config_key}/${one.connection_id}`,
      ),
    );
  }
  expect(byCursor).toEqual(["calendar/ada", "keyed/ada", "keyed/bob", "keyed/cyd"]);
  expect(byNumber).toEqual(byCursor);
  expect(await idsOf("?page=3&limit=2")).toEqual([]);
});
