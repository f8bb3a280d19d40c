import { isIP } from "node:net";
import { Fault } from "../base/fault.ts";

/** The host and port that a request of the forward proxy is for. */
export interface ConnectTarget {
  /** A name in lower case, or an address without brackets. */
  readonly host: string;
  readonly port: number;
  /** `host[:port]`, without the port 443. */
  readonly authority: string;
  /** `https://` and the authority. */
  readonly origin: string;
}

const label = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?";
const name = new RegExp(`^(?=.{1,253}$)${label}(?:\\.${label})*$`);

/**
 * Reads `host:port` of `CONNECT` (RFC 9110, 9.3.6). Refuses what two parsers could read differently: user names, names
 * that look like addresses, a dot at the end.
 */
export function connectTarget(text: string): ConnectTarget {
  const [, bracketed, plain = "", digits = ""] =
    /^(?:\[([0-9A-Fa-f:.]+)\]|([^:[\]/?#@\s]+)):(\d{1,5})$/.exec(text) ?? [];
  const host = (bracketed ?? plain).toLowerCase();
  const port = Number(digits);
  const isRight = bracketed === undefined ? isNameOrIpv4(host) : isIP(host) === 6;
  if (!isRight || port < 1 || port > 65_535) {
    throw new Fault("invalid_path", "CONNECT must name a host and a port: CONNECT api.example.com:443");
  }
  const url = new URL(`https://${bracketed === undefined ? host : `[${host}]`}:${port}`);
  return { host: url.hostname.replace(/^\[(.*)\]$/, "$1"), port, authority: url.host, origin: url.origin };
}

/** `URL` reads `127.1` and `0x7f.1` as addresses: only what it leaves unchanged is taken. */
function isNameOrIpv4(host: string): boolean {
  if (isIP(host) === 4) return true;
  return name.test(host) && URL.canParse(`https://${host}`) && new URL(`https://${host}`).hostname === host;
}
