import { create, type DescMessage, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { checkRules } from "../../../src/base/proto-rules.ts";
import { plainReaderFor } from "../../../src/control-plane/server/bulk/plain-messages.ts";
import { findUnsayable } from "../../../src/control-plane/server/representable.ts";
import {
  ConnectionImportSchema,
  StreamImportConnectionsRequestSchema,
} from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { messageReaders } from "../../../src/gen/latchkey/v1/import_readers.ts";
import { messageOf } from "../../support/runner/random-messages.ts";
import { below, seeded } from "../../support/runner/seeded.ts";

const readImport = plainReaderFor(ConnectionImportSchema);
type Import = MessageInitShape<typeof ConnectionImportSchema>;
const bytesOf = (item: Import) => toBinary(ConnectionImportSchema, create(ConnectionImportSchema, item));

/** Whether the library finds the message valid, and every format can represent it. */
function isValid(bytes: Uint8Array, schema: DescMessage = ConnectionImportSchema): boolean {
  const message = fromBinary(schema, bytes);
  return checkRules(schema, message).kind === "valid" && findUnsayable(schema, message).length === 0;
}

/** Checks that the library reads the same, and finds it valid. Returns whether the reader accepted it. */
function agrees(bytes: Uint8Array): boolean {
  const message = readImport(bytes);
  if (message === undefined) return false;
  expect(message).toStrictEqual(fromBinary(ConnectionImportSchema, bytes));
  if (!isValid(bytes)) throw new Error(`accepted, but not valid: ${Buffer.from(bytes).toString("hex")}`);
  return true;
}

const apiKey = (value: string): Import["credentials"] => ({ kind: { case: "apiKey", value: { apiKey: value } } });
const ordinary: Import = {
  integration: "keyed",
  id: "user-1",
  credentials: apiKey("key"),
  metadata: { emailAddress: "ada@example.com", nested: { list: [1, -1.5, "é", true, null, {}], 7: "seven" } },
  tags: { tags: { team: "t1", 8: "eight" } },
};
const expiresAt = { seconds: 1_900_000_000n, nanos: 5 };
const rich: Import = {
  ...ordinary,
  environment: "prod",
  credentials: {
    kind: {
      case: "oauth2",
      value: {
        accessToken: "🦊".repeat(500),
        refreshToken: "r",
        expiresAt,
        raw: { expires_in: 3600, scope: "a b" },
        configOverride: { clientId: "c", clientSecret: "s" },
        furtherTokens: { user: { accessToken: "u", expiresAt, scopes: ["a", "b"] } },
      },
    },
  },
  connectionConfig: { subdomain: "ada" },
  endUser: { id: "u", email: "é@example.com", tags: { a: "b" }, organization: { id: "o", displayName: "O" } },
  webhookUrlOverride: "",
  expectedRevision: 2n ** 53n - 1n,
};

it.each([ordinary, rich, { ...ordinary, metadata: {}, tags: {} }])("reads a plain import like the library", (item) => {
  expect(agrees(bytesOf(item))).toBe(true);
});

it("reads the messages of an import stream", () => {
  const schema = StreamImportConnectionsRequestSchema;
  const bytes = toBinary(schema, create(schema, { connection: ordinary, runHooks: true }));
  expect(plainReaderFor(schema)(bytes)).toStrictEqual(fromBinary(schema, bytes));
  expect(plainReaderFor(schema)(new Uint8Array())).toStrictEqual(create(schema));
  expect(Object.keys(messageReaders)).toEqual([ConnectionImportSchema, schema].map(({ typeName }) => typeName));
});

it.each<readonly [string, Import]>([
  ["no integration", { ...ordinary, integration: "" }],
  ["a long environment", { ...ordinary, environment: "e".repeat(65) }],
  ["a long ID", { ...ordinary, id: "i".repeat(256) }],
  ["no credentials", { integration: "keyed" }],
  ["credentials of no kind", { ...ordinary, credentials: {} }],
  ["an empty API key", { ...ordinary, credentials: apiKey("") }],
  ["a long URL", { ...ordinary, webhookUrlOverride: "u".repeat(2_049) }],
  ["a long name of the end user", { ...ordinary, endUser: { displayName: "n".repeat(256) } }],
  ["a long name of the organization", { ...ordinary, endUser: { organization: { displayName: "n".repeat(256) } } }],
  ["NUL in an ID", { ...ordinary, id: "a\0b" }],
  ["NUL in a long text", { ...ordinary, credentials: apiKey(`${"k".repeat(100)}\0`) }],
  ["NUL in a tag", { ...ordinary, tags: { tags: { "a\0": "b" } } }],
  ["a revision that JSON rounds", { ...ordinary, expectedRevision: 2n ** 53n }],
  ["a number that JSON rounds", { ...ordinary, metadata: { a: 2 ** 53 } }],
  ["a number below zero that is zero", { ...ordinary, metadata: { a: { b: [-0] } } }],
  [
    "a time beyond the year 9999",
    {
      ...ordinary,
      credentials: { kind: { case: "oauth2", value: { expiresAt: { seconds: 253_402_300_800n, nanos: 0 } } } },
    },
  ],
])("leaves %s to the library, which refuses it", (_, item) => {
  const bytes = bytesOf(item);
  expect(readImport(bytes)).toBeUndefined();
  expect(isValid(bytes)).toBe(false);
});

it("leaves what the library reads in its own way to the library", () => {
  const plain = Buffer.from(bytesOf(ordinary));
  const concatenated = Buffer.concat([plain, Buffer.from(bytesOf({ credentials: apiKey("other") }))]);
  expect(readImport(concatenated), "merged").toBeUndefined();
  expect(readImport(Buffer.concat([plain, Buffer.from([0xfa, 0x3e, 1, 7])])), "of a later version").toBeUndefined();
  expect(readImport(bytesOf({ ...ordinary, metadata: JSON.parse('{"__proto__": 1}') })), "a prototype").toBeUndefined();
  expect(readImport(bytesOf({ ...ordinary, id: "\ufeffa" })), "a byte order mark").toBeUndefined();
});

it.each([1, 5, 9, 10, 200])("leaves a tag, a length and a number with %i bytes too many to the library", (count) => {
  const more = Buffer.alloc(count, 0x80).fill(0, count - 1);
  const lengthened = (bytes: readonly number[], at: number) => {
    const before = Buffer.from(bytes.map((byte, i) => (i === at ? byte | 0x80 : byte)));
    return Buffer.concat([bytesOf(ordinary), before.subarray(0, at + 1), more, before.subarray(at + 1)]);
  };
  const id = [26, 1, 0x61];
  expect(readImport(Buffer.concat([bytesOf(ordinary), Buffer.from(id)]))?.id).toBe("a");
  for (const bytes of [lengthened(id, 0), lengthened(id, 1), lengthened([80, 1], 1)]) {
    expect(readImport(bytes)).toBeUndefined();
  }
});

it("agrees with the library about any message", () => {
  const random = seeded(7);
  let accepted = 0;
  for (let i = 0; i < 2_000; i += 1) {
    // Most messages of random fields alone are not valid.
    const any = messageOf(random, ConnectionImportSchema);
    const some = Object.entries(any).filter(() => random() < 0.3);
    const message = { ...create(ConnectionImportSchema, ordinary), ...Object.fromEntries(some) };
    if (agrees(toBinary(ConnectionImportSchema, message))) accepted += 1;
  }
  expect(accepted).toBeGreaterThan(300);
});

it("agrees with the library about bytes of any kind", () => {
  const random = seeded(8);
  const sources = [ordinary, rich].map((item) => Buffer.from(bytesOf(item)));
  let accepted = 0;
  for (let i = 0; i < 30_000; i += 1) {
    const source = sources[i % 2] as Buffer;
    const at = below(random, source.length);
    const kind = below(random, 4);
    const changed = Buffer.from(source);
    if (kind === 0) changed[at] = below(random, 256);
    else if (kind === 1) changed[at] = (changed[at] ?? 0) ^ (1 << below(random, 8));
    const part = source.subarray(at, at + below(random, 20));
    const bytes =
      kind === 2
        ? Buffer.concat([source.subarray(0, at), part, source.subarray(at)])
        : kind === 3
          ? source.subarray(0, at)
          : changed;
    if (agrees(bytes)) accepted += 1;
  }
  expect(accepted).toBeGreaterThan(1_000);
});
