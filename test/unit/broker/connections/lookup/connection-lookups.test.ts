import { create, type JsonObject } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import {
  connectionLookups,
  lookupDigest,
  lookupFields,
} from "../../../../../src/broker/connections/lookup/connection-lookups.ts";
import { digestBytes } from "../../../../../src/broker/connections/lookup/digest-postings.ts";
import { ConnectionSchema } from "../../../../../src/gen/latchkey/v1/connection_pb.ts";
import { ProviderSchema } from "../../../../../src/gen/latchkey/v1/provider_pb.ts";

const where = { environment: "dev", integration: "calendar", field: "metadata.uris" };
const connection = (metadata: JsonObject, connectionConfig: JsonObject = {}) =>
  create(ConnectionSchema, {
    ref: { environment: "dev", integration: "calendar", id: "ada" },
    metadata,
    connectionConfig,
  });
const filed = (metadata: JsonObject, fields: readonly string[] = [where.field], config: JsonObject = {}) =>
  split(connectionLookups(connection(metadata, config), fields));
const hex = (bytes: Uint8Array | string | undefined) =>
  bytes === undefined
    ? "nothing"
    : (typeof bytes === "string" ? Buffer.from(bytes, "latin1") : Buffer.from(bytes)).toString("hex");
const split = (bytes: Uint8Array | undefined): readonly string[] =>
  Array.from({ length: (bytes?.length ?? 0) / digestBytes }, (_, i) =>
    hex(bytes?.subarray(i * digestBytes, (i + 1) * digestBytes)),
  );
const of = (value: string, field = where.field) => hex(lookupDigest({ ...where, field }, value));

describe("the index entries of a connection", () => {
  it("is a text, and each text of an array", () => {
    expect(filed({ uris: "a" })).toEqual([of("a")]);
    expect(filed({ uris: ["a", "b"] })).toEqual([of("a"), of("b")].sort());
  });

  it("is in order, and each once", () => {
    const values = Array.from({ length: 50 }, (_, n) => `uri-${n % 25}`);
    const digests = filed({ uris: values });
    expect(digests).toEqual([...new Set(values.map((value) => of(value)))].sort());
  });

  it("is a number as it is written, unless JSON would round it", () => {
    expect(filed({ uris: 42 })).toEqual([of("42")]);
    expect(filed({ uris: [7, -1.5] })).toEqual([of("7"), of("-1.5")].sort());
    expect(filed({ uris: Number.MAX_SAFE_INTEGER })).toEqual([of("9007199254740991")]);
    expect(filed({ uris: Number.MAX_SAFE_INTEGER + 1 })).toEqual([]);
  });

  it.each<readonly [string, JsonObject]>([
    ["an empty text", { uris: "" }],
    ["true", { uris: true }],
    ["null", { uris: null }],
    ["an object", { uris: { a: "b" } }],
    ["an array of such", { uris: ["", true, null, { a: "b" }, ["c"]] }],
    ["half a character", { uris: ["\ud800", "a\udc00"] }],
    ["nothing", {}],
  ])("is not %s", (_name, metadata) => {
    expect(filed(metadata)).toEqual([]);
  });

  it("contain nothing that every object has", () => {
    expect(filed({}, ["metadata.constructor", "metadata.__proto__", "connection_config.toString"])).toEqual([]);
  });

  it("comes from the field that is named and no other", () => {
    const fields = ["connection_config.team", "metadata.team"];
    expect(filed({ team: "x" }, fields)).toEqual([of("x", "metadata.team")]);
    expect(filed({}, fields, { team: "x" })).toEqual([of("x", "connection_config.team")]);
    expect(of("x", "metadata.team")).not.toBe(of("x", "connection_config.team"));
  });

  it("cannot collide with another's by shifting the end of a part", () => {
    const digests = [
      lookupDigest({ environment: "dev", integration: "a", field: "metadata.f" }, "x"),
      lookupDigest({ environment: "de", integration: "va", field: "metadata.f" }, "x"),
      lookupDigest({ environment: "dev", integration: "a", field: "metadata.fx" }, "x"),
      lookupDigest({ environment: "dev", integration: "a", field: "metadata.f" }, "\0x"),
      lookupDigest({ environment: "dev", integration: "a", field: "metadata.f\0" }, "x"),
      lookupDigest({ environment: "dev", integration: "a", field: "metadata.f\0x" }, "y"),
      lookupDigest({ environment: "dev", integration: "a", field: "metadata.f" }, "x\0y"),
    ];
    expect(new Set(digests.map(hex)).size).toBe(digests.length);
  });
});

it.each([
  ["a@b", "a%40b"],
  ["Ada@example.com", "ada@example.com"],
  ["https://x/events", "https://x/events/"],
  ["https://x/events", "https://x/events?alt=json"],
  ["caf\u00e9", "cafe\u0301"],
  ["a", "a "],
  ["%2f", "%2F"],
])("takes %j and %j for two values", (one, other) => {
  expect(of(one)).not.toBe(of(other));
});

it("are never searched by a value that any connection could have", () => {
  expect([of(""), of("\ud800")]).toEqual(["nothing", "nothing"]);
});

it("read each field once, in any order of the rules", () => {
  const lookups = ["metadata.b", "connection_config.a", "metadata.b"].map((field) => ({ field, value: "v" }));
  expect(lookupFields(create(ProviderSchema, { notification: { lookups } }))).toEqual([
    "connection_config.a",
    "metadata.b",
  ]);
  expect(lookupFields(create(ProviderSchema, {}))).toEqual([]);
});
