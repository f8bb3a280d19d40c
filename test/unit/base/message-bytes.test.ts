import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { bytesFor } from "../../../src/base/message-bytes.ts";
import {
  file_latchkey_stored_v1_stored,
  StoredForwardSchema,
  StoredRecordSchema,
} from "../../../src/gen/latchkey/stored/v1/stored_pb.ts";
import { messageWriters } from "../../../src/gen/latchkey/stored/v1/stored_writers.ts";
import { ConnectionSchema, StreamImportConnectionsResponseSchema } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { CredentialsSchema } from "../../../src/gen/latchkey/v1/credentials_pb.ts";
import { AuditEventSchema } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { messageOf } from "../../support/runner/random-messages.ts";
import { seeded } from "../../support/runner/seeded.ts";

const schemas = [
  ...file_latchkey_stored_v1_stored.messages.filter(({ typeName }) => typeName in messageWriters),
  ...[ConnectionSchema, CredentialsSchema, AuditEventSchema, StreamImportConnectionsResponseSchema],
];

it("has an encoder for what is stored with every notification, connection, record and use", () => {
  expect(schemas.map(({ typeName }) => typeName).toSorted()).toEqual(Object.keys(messageWriters).toSorted());
});

it.each(schemas)("writes $name like protobuf, with any content", (schema) => {
  const random = seeded(schema.typeName.length);
  const bytesOf = bytesFor(schema);
  for (let i = 0; i < 600; i += 1) {
    const message = messageOf(random, schema);
    const bytes = bytesOf(message);
    expect(Buffer.compare(bytes, toBinary(schema, message))).toBe(0);
  }
});

it("gives each its own bytes", () => {
  const bytesOf = bytesFor(StoredRecordSchema);
  const all = ["one", "two", "three".repeat(100_000)].map((id) => bytesOf(create(StoredRecordSchema, { id })));
  expect(all.map((bytes) => fromBinary(StoredRecordSchema, bytes).id.length)).toEqual([3, 3, 500_000]);
});

it("refuses an invalid number, and writes the next message correctly", () => {
  const bytesOf = bytesFor(StoredForwardSchema);
  const forward = (attemptCount: number) => create(StoredForwardSchema, { id: "msg", attemptCount });
  for (const wrong of [-1, 0.5, Number.NaN, 2 ** 32]) expect(() => bytesOf(forward(wrong))).toThrow(RangeError);
  expect(Buffer.compare(bytesOf(forward(3)), toBinary(StoredForwardSchema, forward(3)))).toBe(0);
});
