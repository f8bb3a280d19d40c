import { randomBytes } from "node:crypto";
import { toBinary } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { placeBytes, recordBytes } from "../../src/broker/record-bytes.ts";
import {
  type RecordPlace,
  RecordPlaceSchema,
  type StoredRecord,
  StoredRecordSchema,
} from "../../src/gen/latchkey/stored/v1/stored_pb.ts";

const times = [0, 1, 0.5, 1_767_225_600_000, 8_640_000_000_000_000];
const lengths = [0, 1, 127, 128, 500, 16_383, 16_384, 3 * 1_024 * 1_024];

it("writes records as protobuf has them, whatever they hold", () => {
  for (const [i, length] of lengths.entries()) {
    for (const id of ["", "1", "ada@example.com", "é🦊".repeat(85), "x".repeat(255)]) {
      const at = (of: number) => times[(i + of) % times.length] ?? 0;
      const record: StoredRecord = {
        ...{ $typeName: "latchkey.stored.v1.StoredRecord", id, data: randomBytes(length) },
        ...{ lastAction: i % 3 === 0 ? "" : "UPDATED", firstSeenMs: at(0), lastModifiedMs: at(1) },
        ...{ deletedMs: at(2), prunedMs: at(3) },
      };
      expect(Buffer.compare(recordBytes(record), toBinary(StoredRecordSchema, record))).toBe(0);
    }
  }
});

it("writes places as protobuf has them, up to the last that there can be", () => {
  for (const sequence of [0n, 1n, 127n, 128n, 300n, 2n ** 31n, 2n ** 32n, 2n ** 35n + 5n, 10n ** 15n, 2n ** 53n - 1n]) {
    for (const [i, firstSeenMs] of times.entries()) {
      const place: RecordPlace = {
        ...{ $typeName: "latchkey.stored.v1.RecordPlace", sequence, dataHash: randomBytes(i % 2 === 0 ? 32 : 0) },
        ...{ firstSeenMs, deletedMs: times[(i + 1) % times.length] ?? 0 },
      };
      expect(Buffer.compare(placeBytes(place), toBinary(RecordPlaceSchema, place))).toBe(0);
    }
  }
});
