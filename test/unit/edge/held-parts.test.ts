import { create, toBinary } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { heldParts, maxFurtherParts } from "../../../src/edge/held-parts.ts";
import {
  EdgeHelloSchema,
  FollowRequestSchema,
  HeldConnectionSchema,
  HeldKeySchema,
  HeldResourceSchema,
} from "../../../src/gen/latchkey/v1/edge_pb.ts";

const version = Buffer.alloc(32, 1);
const grpcLimitBytes = 4 * 1024 * 1024;
/** The most connections that a broker lets an edge follow. */
const mostConnections = 20_000;

function connections(count: number, name: (n: number) => { readonly integration: string; readonly id: string }) {
  return Array.from({ length: count }, (_, n) => {
    const { integration, id } = name(n);
    return create(HeldConnectionSchema, { ref: { environment: "prod", integration, id }, version });
  });
}

const bytesOf = (part: ReturnType<typeof heldParts>[number]): number => {
  const hello = create(EdgeHelloSchema, { edgeId: "e".repeat(64), host: "h".repeat(255), version: "1", ...part });
  return toBinary(FollowRequestSchema, create(FollowRequestSchema, { message: { case: "hello", value: hello } }))
    .length;
};

it("says all in the greeting while it is small", () => {
  const held = {
    connections: connections(1_000, (n) => ({ integration: "a", id: `${n}` })),
    keys: [],
    integrations: [],
    providers: [],
  };
  expect(heldParts(held)).toEqual([held]);
  const nothing = { connections: [], keys: [], integrations: [], providers: [] };
  expect(heldParts(nothing)).toEqual([nothing]);
});

it.each([
  ["long names", (n: number) => ({ integration: "i".repeat(100), id: `${n}`.padEnd(255, "x") })],
  ["names of three bytes a character", (n: number) => ({ integration: "i", id: `${n}`.padEnd(255, "字") })],
  ["short names", (n: number) => ({ integration: "i", id: `${n}` })],
])("fits all that an edge may have into messages that a gRPC server takes, with %s", (_, name) => {
  const held = {
    connections: connections(mostConnections, name),
    keys: Array.from({ length: 10_000 }, () => create(HeldKeySchema, { digest: Buffer.alloc(32), version })),
    integrations: Array.from({ length: 500 }, (__, n) =>
      create(HeldResourceSchema, { name: `${n}`.padEnd(255, "x"), version }),
    ),
    providers: Array.from({ length: 500 }, (__, n) => create(HeldResourceSchema, { name: `${n}`, version })),
  };
  const parts = heldParts(held);
  expect(parts.length).toBeLessThanOrEqual(1 + maxFurtherParts);
  expect(Math.max(...parts.map(bytesOf))).toBeLessThan(grpcLimitBytes / 2);
  expect(parts.flatMap((part) => part.connections)).toEqual(held.connections);
  expect(parts.flatMap((part) => part.keys)).toEqual(held.keys);
  expect(parts.flatMap((part) => part.integrations)).toEqual(held.integrations);
  expect(parts.flatMap((part) => part.providers)).toEqual(held.providers);
});
