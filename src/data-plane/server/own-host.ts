import type { IncomingHttpHeaders } from "node:http";

const loopback = new Set(["localhost", "127.0.0.1", "[::1]"]);

/**
 * On one machine a door has several names, and a cookie has one: whoever comes by another name than that by which
 * providers send them back is sent on first. Undefined: all is well.
 */
export function elsewhere(publicUrl: string, { host }: IncomingHttpHeaders, pathAndQuery: string): string | undefined {
  if (host === undefined || !URL.canParse(publicUrl) || !URL.canParse(`http://${host}`)) return undefined;
  const wanted = new URL(publicUrl);
  const asked = new URL(`http://${host}`);
  const areLoopback = loopback.has(wanted.hostname) && loopback.has(asked.hostname);
  if (!areLoopback || wanted.hostname === asked.hostname || wanted.port !== asked.port) return undefined;
  return `${wanted.origin}${pathAndQuery}`;
}
