import type { JsonObject } from "@bufbuild/protobuf";
import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import {
  checkConnectionConfig,
  checkConnectionId,
  checkMetadata,
  checkTags,
  checkWebhookUrl,
  endUserTags,
  lowerTags,
  maxMetadataDepth,
  ownTags,
} from "../../../src/core/connection-rules.ts";
import { EndUserSchema } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { ConnectionFieldSchema } from "../../../src/gen/latchkey/v1/provider_pb.ts";

const pathsOf = (mistakes: readonly { readonly path: readonly string[] }[]) =>
  mistakes.map(({ path }) => path.join("."));
/** Arrays within arrays, so many deep. */
const nested = (depth: number): JsonObject[string] => (depth === 0 ? 1 : [nested(depth - 1)]);

describe("an id", () => {
  it.each(["a", "A-1_2.3~", "a b", "a/b", "a/.b", "a/..b", "...", "x".repeat(255), "{}", "%2e%2e", "\\", "ada@x.test"])(
    "may be %j",
    (id) => {
      expect(checkConnectionId(id)).toEqual([]);
    },
  );

  it.each([
    "",
    "x".repeat(256),
    " a",
    "a ",
    "a\tb",
    "\x7f",
    "\x1f",
    "é",
    "..",
    ".",
    "a/..",
    "../a",
    "a\\..",
    "./a",
    "\u2028",
  ])("may not be %j", (id) => {
    expect(pathsOf(checkConnectionId(id))).toEqual(["connection_id"]);
  });
});

describe("tags", () => {
  it("may be ten, of 64 characters and 255", () => {
    const ten = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`k${i}`.padEnd(64, "x"), "v".repeat(255)]));
    expect(checkTags(ten)).toEqual([]);
    expect(pathsOf(checkTags({ ...ten, eleventh: "v" }))).toEqual(["tags"]);
  });

  it("report each mistake", () => {
    const wrong = { ok: "v", "": "v", "1": "v", long: "v".repeat(256), none: "", A: "1", a: "2", "a b": "", tab: "\t" };
    expect(pathsOf(checkTags(wrong))).toEqual([
      "tags.1",
      "tags.",
      "tags.long",
      "tags.none",
      "tags.a",
      "tags.a b",
      "tags.a b",
      "tags.tab",
    ]);
  });

  it("compare their keys in lower case, as stored", () => {
    expect(lowerTags({ Team: "X", "A.b/C": "1" })).toEqual({ team: "X", "a.b/c": "1" });
    for (const text of ['{"__proto__":"x"}', '{"__PROTO__":"x"}']) {
      expect(Object.entries(lowerTags(JSON.parse(text)))).toEqual([["__proto__", "x"]]);
    }
    // U+212A, the Kelvin sign, is lower-cased to k: it is no key to begin with.
    expect(pathsOf(checkTags({ "\u212a": "x" }))).toEqual(["tags.\u212a"]);
  });

  it("treat the names of prototypes as tags or mistakes, and nothing else", () => {
    expect(checkTags({ constructor: "x", toString: "y", hasOwnProperty: "z" })).toEqual([]);
    expect(pathsOf(checkTags(JSON.parse('{"__proto__":"x"}')))).toEqual(["tags.__proto__"]);
  });

  it("mirror an end user, and own the remaining tags", () => {
    const endUser = create(EndUserSchema, { id: "u", email: "e", organization: { id: "o" } });
    expect(endUserTags(endUser)).toEqual({ end_user_id: "u", end_user_email: "e", organization_id: "o" });
    expect(endUserTags(undefined)).toEqual({});
    const tags = { ...endUserTags(endUser), end_user_email: "of-my-own", team: "x", constructor: "c" };
    expect(ownTags({ tags, endUser })).toEqual({ end_user_email: "of-my-own", team: "x", constructor: "c" });
    expect(ownTags({ tags: { a: "1" } })).toEqual({ a: "1" });
  });
});

describe("metadata", () => {
  it("may be deep, long and wide, up to its limits", () => {
    const widest = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`k${i}`, null]));
    for (const metadata of [{}, { a: nested(maxMetadataDepth - 1) }, widest, { a: "x".repeat(256 * 1024 - 8) }]) {
      expect(checkMetadata(metadata)).toEqual([]);
    }
  });

  it.each<readonly [string, JsonObject]>([
    ["one level too deep", { a: nested(maxMetadataDepth) }],
    ["ten thousand levels deep", { a: nested(5_000) }],
    ["a key too wide", Object.fromEntries(Array.from({ length: 1_001 }, (_, i) => [`k${i}`, null]))],
    ["a byte too long", { a: "x".repeat(256 * 1024 - 7) }],
    ["long in bytes and not in characters", { a: "é".repeat(128 * 1024) }],
    ["long in escapes and not in characters", { a: "\u0001".repeat(43_690) }],
    ["long in keys", Object.fromEntries(Array.from({ length: 999 }, (_, i) => [`${i}${"k".repeat(258)}`, null]))],
    ["long in numbers", { a: Array.from({ length: 10_486 }, () => -1.2345678901234568e-300) }],
    ["long in small numbers", { a: Array.from({ length: 10_083 }, () => -0.0000012345678901234567) }],
    ["half a character", { a: { b: ["\ud800"] } }],
    ["half a character in a key", { a: { "\udfff": 1 } }],
  ])("may not be %s", (_name, metadata) => {
    expect(pathsOf(checkMetadata(metadata))).toEqual(["metadata"]);
  });

  it("has channel keys of their form, or none, or null", () => {
    const right = { calendarChannelId: "c", calendarResourceId: null, calendarWatchResourceUris: ["u", "v"] };
    expect(checkMetadata(right)).toEqual([]);
    expect(checkMetadata({ calendarWatchResourceUris: null })).toEqual([]);
    expect(checkMetadata({ calendarWatchResourceUris: [] })).toEqual([]);
    const wrong = { calendarChannelId: 1, calendarResourceId: {}, calendarWatchResourceUris: ["u", "", 3] };
    expect(pathsOf(checkMetadata(wrong))).toEqual([
      "metadata.calendarWatchResourceUris.1",
      "metadata.calendarChannelId",
      "metadata.calendarResourceId",
    ]);
  });
});

describe("connection_config", () => {
  const field = (more: object) => create(ConnectionFieldSchema, { name: "host", ...more });
  const check = (host: unknown, more: object) => pathsOf(checkConnectionConfig({ host } as JsonObject, [field(more)]));
  const wrong = ["connection_config.host"];

  it("has the required fields, unless there is a default", () => {
    expect(pathsOf(checkConnectionConfig({}, [field({ required: true })]))).toEqual(wrong);
    expect(checkConnectionConfig({}, [field({ required: true, defaultValue: "x" })])).toEqual([]);
    expect(checkConnectionConfig({}, [field({})])).toEqual([]);
    for (const empty of ["", null]) expect(check(empty, { required: true })).toEqual(wrong);
  });

  it("matches a pattern from its beginning to its end", () => {
    const pattern = { pattern: "[a-z]+|[0-9]+" };
    for (const host of ["abc", "123"]) expect(check(host, pattern)).toEqual([]);
    for (const host of ["abc1", "a\n", " a", "A", 1, ["a"], {}]) expect(check(host, pattern)).toEqual(wrong);
  });

  it("is within the provider's domain", () => {
    const suffixes = { suffixes: ["crm.test", "crm.example"] };
    for (const host of ["https://a.crm.test", "crm.test", "a.b.crm.example", "https://A.CRM.TEST:443/"]) {
      expect(check(host, suffixes)).toEqual([]);
    }
    for (const host of [
      "https://evilcrm.test",
      "https://crm.test.evil.test",
      "https://crm.test@evil.test",
      "https://evil.test/.crm.test",
      "https://evil.test\\@a.crm.test",
      "http://crm.test",
      "crm.test/path",
      "crm.test?x",
      "crm.test#x",
      "crm.test.",
      "[::1].crm.test",
      "a..crm.test:99999",
      "https://",
      "ⓒrm.test",
    ]) {
      expect({ host, paths: check(host, suffixes) }).toEqual({ host, paths: wrong });
    }
  });

  it("may have any other fields, within limits", () => {
    expect(checkConnectionConfig({ anything: { goes: [1, null] } }, [])).toEqual([]);
    expect(pathsOf(checkConnectionConfig({ a: nested(maxMetadataDepth) }, []))).toEqual(["connection_config"]);
    expect(pathsOf(checkConnectionConfig({ a: "x".repeat(300_000) }, []))).toEqual(["connection_config"]);
    expect(pathsOf(checkConnectionConfig({ a: "\ud800" }, []))).toEqual(["connection_config"]);
  });
});

describe("a webhook address", () => {
  const check = (url: string) => pathsOf(checkWebhookUrl(url, ["webhook_url_override"]));
  it.each(["", "https://a.test", "http://localhost:3000/x?y=z#q", "https://a.test/é", "https://a.test/%20"])(
    "may be %j",
    (url) => {
      expect(check(url)).toEqual([]);
    },
  );
  it.each([
    "a.test",
    "//a.test",
    "ftp://a.test",
    "javascript:alert(1)",
    "file:///etc/passwd",
    "https://",
    "https://u@a.test",
    "https://:p@a.test",
    "https://a.test/\n",
    " https://a.test",
    "https://a .test",
    "https://a.test/\0",
    `https://a.test/${"x".repeat(2_048)}`,
  ])("may not be %j", (url) => {
    expect(check(url)).toEqual(["webhook_url_override"]);
  });
});
