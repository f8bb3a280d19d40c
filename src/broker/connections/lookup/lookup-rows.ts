import { digestBytes } from "./digest-postings.ts";

/**
 * Rows: one key for each digest of a connection, which finds the connection in the store. Keys: environment,
 * integration, digest and ID. They have the digests of the connection's lookups, and no value.
 */
export const lookupRowSpace = "connection.match";

/** Returns the rows of a connection, whose environment, integration and ID are joined. */
export function lookupRowKeys(own: string, lookups: Uint8Array): readonly string[] {
  const end = own.lastIndexOf("\0");
  const [before, id] = [`${lookupRowSpace}\0${own.slice(0, end)}\0`, own.slice(end)];
  const digests = Buffer.from(lookups.buffer, lookups.byteOffset, lookups.byteLength);
  const keys: string[] = [];
  for (let at = 0; at + digestBytes <= digests.length; at += digestBytes) {
    keys.push(`${before}${digests.toString("base64url", at, at + digestBytes)}${id}`);
  }
  return keys;
}

/** Whether the digest, of one character a byte, is one of these, which are sorted. */
export function holdsDigest(lookups: Uint8Array, digest: string): boolean {
  const wanted = Buffer.from(digest, "latin1");
  const digests = Buffer.from(lookups.buffer, lookups.byteOffset, lookups.byteLength);
  let [low, high] = [0, Math.floor(digests.length / digestBytes)];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const order = digests.compare(wanted, 0, digestBytes, middle * digestBytes, (middle + 1) * digestBytes);
    if (order === 0) return true;
    if (order < 0) low = middle + 1;
    else high = middle;
  }
  return false;
}
