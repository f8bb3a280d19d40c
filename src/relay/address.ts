import { BlockList, isIP } from "node:net";

/**
 * Addresses that a provider's host name must not resolve to: this machine, private networks and reserved ranges (RFC
 * 6890 and its registries). For an IPv6 form that embeds an IPv4 address, the embedded address is checked.
 */
const forbidden: readonly (readonly [string, number, string])[] = [
  ["0.0.0.0", 8, "this network"],
  ["10.0.0.0", 8, "private"],
  ["100.64.0.0", 10, "shared"],
  ["127.0.0.0", 8, "loopback"],
  ["169.254.0.0", 16, "link-local"],
  ["172.16.0.0", 12, "private"],
  ["192.0.0.0", 24, "reserved"],
  ["192.0.2.0", 24, "documentation"],
  ["192.88.99.0", 24, "reserved"],
  ["192.168.0.0", 16, "private"],
  ["198.18.0.0", 15, "benchmarking"],
  ["198.51.100.0", 24, "documentation"],
  ["203.0.113.0", 24, "documentation"],
  ["224.0.0.0", 4, "multicast"],
  ["240.0.0.0", 4, "reserved"],
  ["::", 128, "unspecified"],
  ["::1", 128, "loopback"],
  ["100::", 64, "discard"],
  ["2001::", 23, "reserved"],
  ["2001:db8::", 32, "documentation"],
  ["3fff::", 20, "documentation"],
  ["5f00::", 16, "reserved"],
  ["fc00::", 7, "private"],
  ["fe80::", 10, "link-local"],
  ["fec0::", 10, "site-local"],
  ["ff00::", 8, "multicast"],
];

const lists = forbidden.map(([network, prefix, kind]) => {
  const list = new BlockList();
  // Not `isIP`: Node then compiles its expression for IPv6, which a start does not need.
  const family = network.includes(":") ? ("ipv6" as const) : ("ipv4" as const);
  list.addSubnet(network, prefix, family);
  return { list, family, kind };
});

/** Returns the kind of a forbidden address; undefined for a public address. */
export function forbiddenKind(address: string): string | undefined {
  if (isIP(address) === 4) return kindIn("ipv4", address);
  if (isIP(address) !== 6) return "no address";
  const groups = groupsOf(address);
  const carried = carriedIpv4(groups);
  return carried === undefined
    ? kindIn("ipv6", address.replace(/%.*$/, ""))
    : (kindIn("ipv4", carried) ?? embeddedKind(groups));
}

const kindIn = (family: "ipv4" | "ipv6", address: string): string | undefined =>
  lists.find((one) => one.family === family && one.list.check(address, family))?.kind;

/**
 * A translator chooses where a translated address leads. Only the well-known NAT64 prefix leads to public addresses.
 */
const embeddedKind = (groups: readonly number[]): string | undefined =>
  groups.slice(0, 6).join() === [0x64, 0xff9b, 0, 0, 0, 0].join() ? undefined : "embedded";

/**
 * Forms: ::a.b.c.d, ::ffff:a.b.c.d, ::ffff:0:a.b.c.d, 64:ff9b::a.b.c.d, 64:ff9b:1::/48, 2002:a.b.c.d::, 2001:0:…
 * (Teredo).
 */
function carriedIpv4(groups: readonly number[]): string | undefined {
  const [a = 0, b = 0, c = 0, , e = 0, f = 0, g = 0, h = 0] = groups;
  const isZero = (from: number, to: number) => groups.slice(from, to).every((group) => group === 0);
  if (isZero(0, 4) && ((e === 0 && (f === 0xffff || (f === 0 && g !== 0))) || (e === 0xffff && f === 0))) {
    return dotted(g, h);
  }
  if (a === 0x64 && b === 0xff9b) return dotted(g, h);
  if (a === 0x2002) return dotted(b, c);
  // Teredo inverts the bits of the address to hide the address from translators.
  if (a === 0x2001 && b === 0) return dotted(g ^ 0xffff, h ^ 0xffff);
  return undefined;
}

const dotted = (high: number, low: number): string => [high >> 8, high & 255, low >> 8, low & 255].join(".");

function groupsOf(address: string): number[] {
  const [bare = ""] = address.split("%");
  const plain = bare.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, a, b, c, d) =>
    [(Number(a) << 8) | Number(b), (Number(c) << 8) | Number(d)].map((group) => group.toString(16)).join(":"),
  );
  const [left = "", right] = plain.split("::");
  const parse = (part: string) => (part === "" ? [] : part.split(":").map((group) => Number.parseInt(group, 16)));
  const before = parse(left);
  const behind = right === undefined ? [] : parse(right);
  return [...before, ...Array.from({ length: 8 - before.length - behind.length }, () => 0), ...behind];
}
