import { expect, it } from "vitest";
import { isLocalName } from "../../../../src/relay/egress-proxy/local-names.ts";
import { createNoProxy, defaultNoProxy, noProxyMistake } from "../../../../src/relay/egress-proxy/no-proxy.ts";

it.each([
  ["example.com", ["example.com:443", "api.example.com:443"], ["badexample.com:443", "example.com.evil.test:443"]],
  [".example.com", ["api.example.com:443", "a.b.example.com:80"], ["example.com:443", "xexample.com:443"]],
  ["*.example.com", ["api.example.com:443"], ["example.com:443"]],
  ["Example.COM:8443", ["example.com:8443", "api.example.com:8443"], ["example.com:443"]],
  ["localhost", ["localhost:3000", "a.localhost:1"], ["localhost.example.com:1", "local:1"]],
  [".svc", ["shop.default.svc:80"], ["svc:80", "shop.default.svc.cluster.local:80"]],
  ["10.0.0.0/8", ["10.255.0.1:443"], ["11.0.0.1:443", "10.example.com:443"]],
  ["10.1.2.3", ["10.1.2.3:1"], ["10.1.2.4:1", "x.10.1.2.3.nip.io:1"]],
  ["10.1.2.3:8080", ["10.1.2.3:8080"], ["10.1.2.3:80"]],
  ["fd00::/8", ["fd12::1:443"], ["fe80::1:443"]],
  ["::1", ["::1:80"], ["::2:80", "127.0.0.1:80"]],
  ["[::1]:80", ["::1:80"], ["::1:443"]],
])("%s dials directly to exactly what it names", (entry, direct, through) => {
  expect(noProxyMistake(entry)).toBeUndefined();
  const isDirect = createNoProxy([entry]);
  const test = (place: string) => {
    const at = place.lastIndexOf(":");
    return isDirect({ host: place.slice(0, at), port: Number(place.slice(at + 1)) });
  };
  expect(direct.filter((place) => !test(place))).toEqual([]);
  expect(through.filter(test)).toEqual([]);
});

it("has a default that is this machine, and no address of a network", () => {
  const isDirect = createNoProxy(defaultNoProxy);
  const hosts = ["localhost", "127.0.0.1", "127.9.9.9", "::1", "10.0.0.1", "169.254.169.254", "example.com", "db"];
  expect(hosts.filter((host) => isDirect({ host, port: 443 }))).toEqual(["localhost", "127.0.0.1", "127.9.9.9", "::1"]);
});

it.each([
  "*",
  "http://example.com",
  "example.com/8",
  "10.0.0.0/33",
  "0.0.0.0/0",
  "10.1",
  "a b",
  "",
  "x:0",
  "x:70000",
  "[::1",
  "-",
])("refuses %j", (entry) => {
  expect(noProxyMistake(entry)).toMatch(/must be|would dial/);
  expect(() => createNoProxy([entry])).toThrow("not valid");
});

it("knows names of private networks", () => {
  const local = ["db", "metadata.google.internal", "printer.local", "a.localhost", "x.svc", "x.svc.cluster.local"];
  const others = ["example.com", "internal.example.com", "localhost.com", "mysvc.io", "local.net"];
  expect([...local, ...others].filter(isLocalName)).toEqual(local);
});
