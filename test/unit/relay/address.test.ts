import { expect, it } from "vitest";
import { forbiddenKind } from "../../../src/relay/address.ts";

/** The first and last addresses of each refused range; the tests probe between and around them. */
const refused: Readonly<Record<string, readonly string[]>> = {
  "this network": ["0.0.0.0", "0.255.255.255"],
  private: ["10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0", "192.168.255.255"],
  shared: ["100.64.0.0", "100.127.255.255"],
  loopback: ["127.0.0.0", "127.0.0.1", "127.255.255.255"],
  "link-local": ["169.254.0.0", "169.254.169.254", "169.254.255.255"],
  reserved: ["192.0.0.0", "192.0.0.255", "192.88.99.1", "240.0.0.0", "255.255.255.255"],
  documentation: ["192.0.2.0", "192.0.2.255", "198.51.100.0", "198.51.100.255", "203.0.113.0", "203.0.113.255"],
  benchmarking: ["198.18.0.0", "198.19.255.255"],
  multicast: ["224.0.0.0", "239.255.255.255"],
};

const neighbours = [
  ...["1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0"],
  ...["169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.0.3.0", "192.167.255.255"],
  ...["192.169.0.0", "198.17.255.255", "198.20.0.0", "198.51.99.255", "203.0.114.0", "223.255.255.255", "8.8.8.8"],
];

it("refuses every IPv4 range that is not for the public, from its first address to its last", () => {
  for (const [kind, addresses] of Object.entries(refused)) {
    for (const address of addresses) expect(forbiddenKind(address), address).toBe(kind);
  }
  for (const address of neighbours) expect(forbiddenKind(address), address).toBeUndefined();
});

it("refuses every IPv6 range that is not for the public", () => {
  const kinds: Readonly<Record<string, readonly string[]>> = {
    unspecified: ["::", "0:0:0:0:0:0:0:0"],
    loopback: ["::1", "0:0:0:0:0:0:0:1", "0000::0001"],
    private: ["fc00::", "fd12:3456::1", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
    "link-local": ["fe80::1", "fe80::1%eth0", "febf::1", "FE80::1"],
    "site-local": ["fec0::1", "feff::1"],
    multicast: ["ff00::", "ff02::1", "ffff::1"],
    documentation: ["2001:db8::1", "2001:db8:ffff::1", "3fff::1"],
    discard: ["100::1"],
  };
  for (const [kind, addresses] of Object.entries(kinds)) {
    for (const address of addresses) expect(forbiddenKind(address), address).toBe(kind);
  }
  for (const address of ["2606:4700::1111", "2a00:1450:4001::1", "2400::1"]) {
    expect(forbiddenKind(address), address).toBeUndefined();
  }
});

it("judges an IPv6 address with an embedded IPv4 one by the latter, in every spelling", () => {
  for (const address of [
    ...["::ffff:127.0.0.1", "::ffff:7f00:1", "0:0:0:0:0:ffff:7f00:0001", "::FFFF:7F00:1", "::ffff:127.0.0.1%lo"],
    ...["::ffff:0:127.0.0.1", "::ffff:0:7f00:1", "::127.0.0.1", "::7f00:1"],
    ...["64:ff9b::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2002:7f00:1::1"],
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
  ]) {
    expect(forbiddenKind(address), address).toBe("loopback");
  }
  for (const address of ["::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "::a9fe:a9fe"]) {
    expect(forbiddenKind(address), address).toBe("link-local");
  }
  // A network's own NAT64 prefix may lead anywhere, whatever the address; the well-known one does not.
  for (const address of [
    "::ffff:8.8.8.8",
    "2002:808:808::1",
    "2001:0:4136:e378:8000:63bf:f7f7:f7f7",
    "64:ff9b:1::808:808",
  ]) {
    expect(forbiddenKind(address), address).toBe("embedded");
  }
  expect(forbiddenKind("64:ff9b::8.8.8.8")).toBeUndefined();
});

it("recognizes invalid addresses", () => {
  for (const text of [
    "",
    "localhost",
    "127.1",
    "0x7f000001",
    "2130706433",
    "0177.0.0.1",
    "127.0.0.1.",
    "[::1]",
    "①②⑦.⓪.⓪.①",
  ]) {
    expect(forbiddenKind(text), text).toBe("no address");
  }
});
