import { create, type JsonObject } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { filledUrl, UnboundHost } from "../../../../src/core/outgoing/filled-url.ts";
import { ConnectionFieldSchema } from "../../../../src/gen/latchkey/v1/provider_pb.ts";

const fields = [
  { name: "shop", pattern: "[a-z0-9-]+" },
  { name: "instance", suffixes: ["crm.test"] },
  { name: "tenant", pattern: "[a-z.]+", defaultValue: "common" },
  { name: "any", pattern: ".*" },
].map((one) => create(ConnectionFieldSchema, one));

const fill = (
  url: string,
  config: JsonObject = {},
  more: { defaults?: Record<string, string>; credentials?: JsonObject } = {},
) => filledUrl(url, { fields, config, defaults: {}, ...more });

const shop = "https://${connectionConfig.shop}.shops.test/oauth/token";
const instance = "https://${connectionConfig.instance}/oauth/token";
const tenant = "https://login.test/${connectionConfig.tenant}/token?a=b";

it("puts labels into a host and a segment into a path", () => {
  expect(fill(shop, { shop: "acme" })).toBe("https://acme.shops.test/oauth/token");
  expect(fill(instance, { instance: "https://Acme.crm.test/" })).toBe("https://acme.crm.test/oauth/token");
  expect(fill(instance, { instance: "crm.test" })).toBe("https://crm.test/oauth/token");
  expect(fill(instance, { instance: "acme.crm.test:8443" })).toBe("https://acme.crm.test:8443/oauth/token");
  expect(fill(tenant, { tenant: "contoso.example" })).toBe("https://login.test/contoso.example/token?a=b");
  expect(fill("https://login.test/token")).toBe("https://login.test/token");
});

it("asks the connection first, then its integration, then the field", () => {
  const defaults = { tenant: "ours" };
  expect(fill(tenant, { tenant: "theirs" }, { defaults })).toContain("/theirs/");
  for (const nothing of [{}, { tenant: "" }, { tenant: null }])
    expect(fill(tenant, nothing, { defaults })).toContain("/ours/");
  expect(fill(tenant)).toContain("/common/");
});

it("puts a field of the credentials into a path, and into no host", () => {
  const credentials = { installation_id: "123" };
  const at = (url: string) => fill(url, {}, { credentials });
  expect(at("https://api.test/app/${credentials.installation_id}/tokens")).toBe("https://api.test/app/123/tokens");
  expect(() => at("https://${credentials.installation_id}.api.test/")).toThrow(UnboundHost);
  expect(() => at("https://api.test/${credentials.other}")).toThrow(UnboundHost);
});

it.each([
  ...[
    "evil.test/x",
    "evil.test",
    "evil.test#",
    "x@evil.test",
    "evil.test\\",
    "a.b.evil.test?",
    "%2e",
    "..",
    "",
    " ",
    "ACME",
  ],
  ...["\u212a", "acme\n", "a/../b", "acme:443", null, 1, ["acme"], {}],
])("refuses %j as a shop", (value) => {
  expect(() => fill(shop, { shop: value as never })).toThrow(UnboundHost);
});

it.each([
  ...["https://evil.test", "https://crm.test.evil.test", "https://evilcrm.test", "https://a.crm.test@evil.test"],
  ...[
    "https://evil.test/.crm.test",
    "https://evil.test#.crm.test",
    "https://evil.test\\.crm.test",
    "http://a.crm.test",
  ],
  ...[
    "//a.crm.test",
    "https://a.crm.test/x",
    "https://a.crm.test:99999",
    "https://https://a.crm.test",
    "\u212a.crm.test",
  ],
])("refuses %j as an instance", (value) => {
  expect(() => fill(instance, { instance: value })).toThrow(UnboundHost);
});

it.each(["..", ".", "a/b", "a%2fb", "a?b", "a#b", "a\\b", "", "ä", "a b", "x".repeat(256)])(
  "refuses %j as a path segment",
  (value) => {
    expect(() => fill("https://login.test/${connectionConfig.any}/token", { any: value })).toThrow(UnboundHost);
  },
);

it("takes no number for a name, nor one that is not written as names are", () => {
  for (const any of ["127.1", "2130706433", "0x7f.1", "ACME.example"]) {
    expect(() => fill("https://${connectionConfig.any}/", { any })).toThrow(UnboundHost);
  }
});

it("accepts no value that no field describes", () => {
  expect(() => fill("https://${connectionConfig.other}.shops.test/", { other: "acme" })).toThrow(
    /connection_config\.other/,
  );
});

it("quotes no value", () => {
  expect(() => fill(shop, { shop: "s3cr3t/" })).not.toThrow(/s3cr3t/);
});
