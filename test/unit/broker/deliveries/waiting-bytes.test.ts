import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { readWaiting } from "../../../../src/broker/deliveries/outbox/waiting-bytes.ts";
import { type WaitingForward, WaitingForwardSchema } from "../../../../src/gen/latchkey/stored/v1/stored_pb.ts";
import { messageOf } from "../../../support/runner/random-messages.ts";
import { below, seeded } from "../../../support/runner/seeded.ts";

const fieldsOf = ({ $typeName, $unknown, ...fields }: WaitingForward) => fields;

function read(reader: (bytes: Uint8Array) => unknown, bytes: Uint8Array): unknown {
  try {
    return reader(bytes);
  } catch {
    return "refused";
  }
}

const known = (bytes: Uint8Array): unknown => fieldsOf(readWaiting(bytes) as WaitingForward);
const expected = (bytes: Uint8Array): unknown => fieldsOf(fromBinary(WaitingForwardSchema, bytes));

it("reads outbox entries like protobuf, with any content", () => {
  const random = seeded(7);
  for (let i = 0; i < 2_000; i += 1) {
    const bytes = toBinary(WaitingForwardSchema, messageOf(random, WaitingForwardSchema) as WaitingForward);
    expect(known(bytes)).toEqual(expected(bytes));
  }
});

it("reads damaged entries like protobuf, or refuses them like it", () => {
  const random = seeded(8);
  for (let i = 0; i < 5_000; i += 1) {
    const whole = toBinary(WaitingForwardSchema, messageOf(random, WaitingForwardSchema) as WaitingForward);
    if (whole.length > 500) continue;
    const bytes = random() < 0.3 ? whole.slice(0, below(random, whole.length + 1)) : whole;
    if (bytes.length > 0) bytes[below(random, bytes.length)] = below(random, 256);
    expect(read(known, bytes)).toEqual(read(expected, bytes));
  }
});
