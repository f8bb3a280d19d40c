import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { bindingOf } from "../../../../src/core/outgoing/binding.ts";
import { ConnectionSchema } from "../../../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationSchema } from "../../../../src/gen/latchkey/v1/integration_pb.ts";
import { ProviderSchema } from "../../../../src/gen/latchkey/v1/provider_pb.ts";

interface Given {
  readonly provider: MessageInitShape<typeof ProviderSchema>;
  readonly connection?: MessageInitShape<typeof ConnectionSchema>;
  readonly integration?: MessageInitShape<typeof IntegrationSchema>;
}

const bound = ({ provider, connection = {}, integration = {} }: Given) =>
  bindingOf({
    provider: create(ProviderSchema, provider),
    connection: create(ConnectionSchema, connection),
    integration: create(IntegrationSchema, integration),
  });

const suite = {
  proxy: {
    baseUrl: "https://www.example.com/api/",
    hosts: [
      { prefix: "/mail/", origin: "https://mail.example.com" },
      { prefix: "/mail/upload/", origin: "https://up.example.com:8443/v2" },
      { prefix: "", origin: "https://also.example.com" },
    ],
  },
};

it("finds the host of a path by the longest prefix that fits, and else the base URL's", () => {
  const binding = bound({ provider: suite });
  expect(binding.addressFor("/mail/x")).toEqual({ origin: "https://mail.example.com", basePath: "" });
  expect(binding.addressFor("/mail/upload/x")).toEqual({ origin: "https://up.example.com:8443", basePath: "/v2" });
  expect(binding.addressFor("/mailx")).toEqual({ origin: "https://www.example.com", basePath: "/api" });
  expect(binding.addressFor("//mail/x")).toEqual({ origin: "https://www.example.com", basePath: "/api" });
});

it("allows credentials to listed origins only", () => {
  const binding = bound({ provider: suite, integration: { hosts: [{ origin: "https://eu.example.com" }] } });
  expect(binding.addressAt("https://also.example.com/x/")).toEqual({
    origin: "https://also.example.com",
    basePath: "/x",
  });
  expect(binding.addressAt("https://eu.example.com:443")).toEqual({ origin: "https://eu.example.com", basePath: "" });
  for (const url of [
    "https://example.com",
    "https://www.example.com.",
    "https://www.example.com:8443",
    "https://up.example.com",
    "http://www.example.com",
    "https://www.example.com@evil.test",
    "https://WWW.example.com@",
    "https://www.ex\u00adample.com",
    "https://www.example.com/x?y",
    " https://www.example.com",
  ]) {
    expect([url, binding.addressAt(url)]).toEqual([url, undefined]);
  }
});

it("takes a URL apart without changing its path, and never goes from https to http", () => {
  const binding = bound({ provider: suite });
  const address = { origin: "https://www.example.com", basePath: "" };
  expect(binding.pathWithin("http://www.example.com/a/../b?c#d")).toEqual({ address, path: "/a/../b?c#d" });
  expect(binding.pathWithin("HTTPS://WWW.EXAMPLE.COM")).toEqual({ address, path: "/" });
  expect(binding.pathWithin("http://www.example.com?x")).toEqual({ address, path: "/?x" });
  expect(binding.pathWithin("http://www.example.com:80/")).toBeUndefined();
  expect(binding.pathWithin("http://evil.test/")).toBeUndefined();
  const open = bound({ provider: { proxy: { baseUrl: "http://inside.test" } } });
  expect(open.pathWithin("http://inside.test/x")?.address.origin).toBe("http://inside.test");
  expect(open.pathWithin("https://inside.test/x")).toBeUndefined();
});

const templated = {
  proxy: { baseUrl: "https://${connectionConfig.subdomain}.provider.test/v1" },
  connectionFields: [{ name: "subdomain" }],
};

it("fills a part of the host in", () => {
  const at = (connectionConfig: Record<string, string>) =>
    bound({ provider: templated, connection: { connectionConfig } });
  expect(at({ subdomain: "acme" }).addressFor("/").origin).toBe("https://acme.provider.test");
});

it.each([
  ...[
    "evil.test/#",
    "evil.test/?",
    "evil.test#",
    "evil.test\\",
    "x@evil.test/",
    "evil.test:80\\@",
    "169.254.169.254/#",
  ],
  ...[
    "2130706433/#",
    "0x7f.1/#",
    "127.1/#",
    "[::1]/#",
    "localhost./#",
    "acme.example.com:8443/",
    "acme\t",
    "acme%2eevil",
  ],
  ...[
    "\u0430\u0441\u043c\u0435",
    "\u24d4vil",
    "ac\u00adme",
    "",
    " ",
    "-acme",
    "acme-",
    "acme..",
    ".acme",
    "ACME",
    "a_b",
    "x:0",
  ],
])("uses no connection whose part of the host is %j", (subdomain) => {
  const given = { provider: templated, connection: { connectionConfig: { subdomain } } };
  expect(() => bound(given)).toThrow(/connection_config\.subdomain/);
});

it("uses none that lacks its part of the host", () => {
  expect(() => bound({ provider: templated })).toThrow(/connection_config\.subdomain/);
  expect(() => bound({ provider: {} })).toThrow(/no base URL/);
});
