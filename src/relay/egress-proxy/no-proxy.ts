import { BlockList, isIP } from "node:net";
import type { Origin } from "../origin.ts";

/** What stays on this machine. */
export const defaultNoProxy: readonly string[] = ["localhost", "127.0.0.0/8", "::1"];

/** An entry of `no_proxy`, read. */
interface NoProxyRule {
  matches(host: string, family: number): boolean;
  /** Undefined: every port. */
  readonly port: number | undefined;
}

/** Returns a test for origins that are dialed directly. Throws for an entry that `noProxyMistake` reports. */
export function createNoProxy(entries: readonly string[]): (origin: Pick<Origin, "host" | "port">) => boolean {
  const rules = entries.map((entry) => {
    const rule = readRule(entry);
    if (rule === undefined) throw new Error("an entry of no_proxy is not valid");
    return rule;
  });
  return ({ host, port }) => {
    const family = isIP(host);
    return rules.some((rule) => (rule.port === undefined || rule.port === port) && rule.matches(host, family));
  };
}

/** Returns what is wrong with an entry; undefined if it is valid. */
export function noProxyMistake(entry: string): string | undefined {
  if (entry === "*") return "would dial everything directly: leave out the proxy instead";
  if (readRule(entry) !== undefined) return undefined;
  return "must be a name such as example.com or .example.com, an address, or a network such as 10.0.0.0/8; each may end in :port";
}

const name = /^(?=.{1,253}$)[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*$/;

function readRule(entry: string): NoProxyRule | undefined {
  const text = entry.toLowerCase();
  const network = /^(.+)\/(\d{1,3})$/.exec(text);
  if (network !== null) return networkRule(network[1] ?? "", Number(network[2]));
  if (isIP(text) !== 0) return addressRule(text, undefined);
  const [, bracketed, plain = "", portText] = /^(?:\[([0-9a-f:.]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/.exec(text) ?? [];
  const port = portText === undefined ? undefined : Number(portText);
  if (port !== undefined && (port < 1 || port > 65_535)) return undefined;
  if (bracketed !== undefined) return isIP(bracketed) === 6 ? addressRule(bracketed, port) : undefined;
  if (isIP(plain) !== 0) return addressRule(plain, port);
  // `.example.com` and `*.example.com` are the names below; `example.com` is that name as well, as curl and Go read it.
  const [, below, host = ""] = /^(\*?\.)?(.*)$/.exec(plain) ?? [];
  // A name that ends in a number would be read as an address by some programs: `10.1` is not a name.
  if (!name.test(host) || /(?:^|\.)\d+$/.test(host)) return undefined;
  const ending = `.${host}`;
  const isExactToo = below === undefined;
  return { port, matches: (asked) => asked.endsWith(ending) || (isExactToo && asked === host) };
}

function networkRule(address: string, prefix: number): NoProxyRule | undefined {
  const family = isIP(address);
  if (family === 0 || prefix < 1 || prefix > (family === 4 ? 32 : 128)) return undefined;
  const list = new BlockList();
  list.addSubnet(address, prefix, family === 4 ? "ipv4" : "ipv6");
  return ruleOf(list, undefined);
}

function addressRule(address: string, port: number | undefined): NoProxyRule {
  const list = new BlockList();
  list.addAddress(address, isIP(address) === 4 ? "ipv4" : "ipv6");
  return ruleOf(list, port);
}

/** Only addresses match networks: a name that resolves into one does not, because DNS must not open a direct way. */
const ruleOf = (list: BlockList, port: number | undefined): NoProxyRule => ({
  port,
  matches: (host, family) => family !== 0 && list.check(host, family === 4 ? "ipv4" : "ipv6"),
});
