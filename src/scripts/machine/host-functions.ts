import { createHash, createHmac, getHashes, randomBytes } from "node:crypto";
import { settableUrlParts } from "../url-parts.ts";

/** Takes and returns text. Undefined: the arguments are not valid. */
type HostFunction = (a: string, b: string) => string | undefined;

const maxRandomBytes = 65_536;

/** Functions that the engine lacks, and the sandbox calls on its host: random bytes, URLs and digests. */
export const hostFunctions: Readonly<Record<string, HostFunction>> = {
  random: (count) => randomBytes(Math.min(Number(count) || 0, maxRandomBytes)).toString("hex"),
  url: (text) => urlParts(JSON.parse(text) as readonly (string | null | undefined)[]),
  digest: (about, data) => digest(JSON.parse(about) as HashRequest, data),
};

const settable: ReadonlySet<string> = new Set(settableUrlParts);

/** Parses a URL, or changes a part of one; text in, text out. */
function urlParts([text, base, part, value]: readonly (string | null | undefined)[]): string | undefined {
  const url = URL.parse(text ?? "", base ?? undefined);
  if (url === null) return undefined;
  if (typeof part === "string" && settable.has(part)) {
    try {
      Object.assign(url, { [part]: value });
    } catch {
      // Only `href` throws; other parts keep their value.
      return undefined;
    }
  }
  const { href, origin, protocol, username, password, host, hostname, port, pathname, search, hash } = url;
  return JSON.stringify({
    href,
    origin,
    protocol,
    username,
    password,
    host,
    hostname,
    port,
    pathname,
    search,
    hash,
  });
}

const algorithms = new Set(getHashes().map((name) => name.toLowerCase()));

interface HashRequest {
  readonly algorithm: string;
  /** Base64; null for a plain hash. */
  readonly key: string | null;
}

/** Hashes bytes, or signs them with a key; base64 in, base64 out. */
function digest({ algorithm, key }: HashRequest, data: string): string | undefined {
  if (!algorithms.has(algorithm.toLowerCase())) return undefined;
  const bytes = Buffer.from(data, "base64");
  const made = key === null ? createHash(algorithm) : createHmac(algorithm, Buffer.from(key, "base64"));
  return made.update(bytes).digest("base64");
}
