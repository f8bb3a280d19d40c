import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { describedValues } from "../../../../src/broker/connections/described-values.ts";
import { filledRequest } from "../../../../src/broker/tokens/request-template.ts";
import { emailHash } from "../../../../src/core/notifications/email-hash.ts";
import {
  DescribeRuleSchema,
  LookupRule_Transform,
  RequestTemplateSchema,
} from "../../../../src/gen/latchkey/v1/provider_pb.ts";

const rule = (value: string, field: string, transform: LookupRule_Transform = LookupRule_Transform.UNSPECIFIED) =>
  create(DescribeRuleSchema, { value, field, transform });

it("hashes an address the same however it is written", () => {
  expect(emailHash(" Ada@Example.com ")).toBe(emailHash("ada@example.com"));
});

it("stores the values of an answer, and skips missing ones", () => {
  const rules = [
    rule("id", "connection_config.emailAddressHash", LookupRule_Transform.EMAIL_HASH),
    rule("shop.domain", "metadata.shopDomain", LookupRule_Transform.LOWER_CASE),
    rule("list.0.n", "metadata.first"),
    rule("list.0.n", "connection_config.division"),
    rule("nothing", "metadata.nothing"),
    rule("list", "metadata.hashed", LookupRule_Transform.EMAIL_HASH),
  ];
  expect(describedValues(rules, { id: "a@b.c", shop: { domain: "Shop.Example" }, list: [{ n: 1 }] })).toEqual({
    connectionConfig: { emailAddressHash: emailHash("a@b.c"), division: "1" },
    metadata: { shopDomain: "shop.example", first: 1 },
  });
});

it("writes values for their place in a request, and sends none without a value", () => {
  const template = create(RequestTemplateSchema, {
    path: "/a/${connectionConfig.x}?q=1",
    body: '{"x":"${connectionConfig.x}"}',
    headers: { "x-account": "a ${connectionConfig.x}" },
  });
  const filled = (x: string | undefined, change: Partial<typeof template> = {}) =>
    filledRequest({ ...template, ...change }, (name) => (name === "connectionConfig.x" ? x : undefined));
  const place = { method: "GET", path: "/a/a%2Fb%22?q=1", headers: ["x-account", 'a a/b"'] };
  expect(filled('a/b"')).toEqual({ ...place, body: '{"x":"a/b\\""}', contentType: "application/json" });
  expect(filled('a/b"', { format: "form", body: "x=${connectionConfig.x}&y=1" })).toEqual({
    ...place,
    body: "x=a%2Fb%22&y=1",
    contentType: "application/x-www-form-urlencoded",
  });
  for (const x of [undefined, "", "..", "a\r\nb: c", "ö"]) expect(filled(x)).toBeUndefined();
});
