import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { connectConfig } from "../../../../src/core/dialect/connect-params.ts";
import { ConnectionFieldSchema } from "../../../../src/gen/latchkey/v1/provider_pb.ts";

const fields = [
  create(ConnectionFieldSchema, { name: "shop" }),
  create(ConnectionFieldSchema, { name: "cell", automatic: true }),
];

it("accepts from a page only the provider's fields for end users", () => {
  const given = { shop: "acme", cell: "evil", emailAddressHash: "evil", constructor: "evil" };
  expect(connectConfig(fields, { existing: {}, given, session: {} })).toEqual({ shop: "acme" });
});

it("prefers the application's values to a page's, and both to earlier ones", () => {
  const existing = { shop: "old", kept: 1 };
  expect(connectConfig(fields, { existing, given: { shop: "page" }, session: {} })).toEqual({ shop: "page", kept: 1 });
  const session = { shop: "application", oauth_scopes_override: "a b" };
  expect(connectConfig(fields, { existing, given: { shop: "page" }, session })).toEqual({
    shop: "application",
    kept: 1,
  });
  expect(connectConfig(fields, { existing, given: { shop: "" }, session: {} })).toEqual(existing);
});
