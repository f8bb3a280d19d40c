import type { IncomingHttpHeaders } from "node:http";

const loopback = new Set(["localhost", "127.0.0.1", "[::1]"]);

/**
 * Returns the URL to redirect a browser to; undefined: no redirect. A listener on this machine has several names, but a
 * cookie belongs to one: the name by which providers send browsers back.
 */
export function ownHostUrl(publicUrl: string, { host }: IncomingHttpHeaders, pathAndQuery: string): string | undefined {
  if (host === undefined || !URL.canParse(publicUrl) || !URL.canParse(`http://${host}`)) return undefined;
  const wanted = new URL(publicUrl);
  const requested = new URL(`http://${host}`);
  const areLoopback = loopback.has(wanted.hostname) && loopback.has(requested.hostname);
  if (!areLoopback || wanted.hostname === requested.hostname || wanted.port !== requested.port) return undefined;
  return `${wanted.origin}${pathAndQuery}`;
}
