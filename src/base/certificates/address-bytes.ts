import { isIP } from "node:net";

/** Returns the 4 or 16 bytes of an address; undefined for a name. */
export function addressBytes(host: string): Buffer | undefined {
  const family = isIP(host);
  if (family === 0) return undefined;
  if (family === 4) return Buffer.from(host.split(".").map(Number));
  const groups = withoutDots(host);
  const [before = "", after] = groups.split("::");
  const first = groupsIn(before);
  const last = groupsIn(after ?? "");
  const zeros = after === undefined ? [] : Array.from({ length: 8 - first.length - last.length }, () => 0);
  return Buffer.from([...first, ...zeros, ...last].flatMap((group) => [group >> 8, group & 0xff]));
}

const groupsIn = (text: string): number[] =>
  text === "" ? [] : text.split(":").map((group) => Number.parseInt(group, 16));

/** The last two groups may be written as an IPv4 address. */
function withoutDots(host: string): string {
  const [, start, ipv4] = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(host) ?? [];
  if (start === undefined || ipv4 === undefined) return host;
  const [a = 0, b = 0, c = 0, d = 0] = ipv4.split(".").map(Number);
  return `${start}${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
}
