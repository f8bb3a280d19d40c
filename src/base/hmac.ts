import { createHmac, hash } from "node:crypto";

/** HMAC-SHA-256 with one key, for many short texts. */
export interface Hmac {
  /** Returns the HMAC of the concatenated parts (text as UTF-8), with one character a byte. */
  of(...parts: readonly (string | Uint8Array)[]): string;
}

const blockBytes = 64;
const digestBytes = 32;
/** For longer texts, `createHmac` is as fast. */
const maxShortBytes = 4_096;

/**
 * RFC 2104: H(K ⊕ opad, H(K ⊕ ipad, text)), the same bytes as `createHmac`, whose setup takes 3 µs. Two one-shot hashes
 * take 0.9 µs, with text results, which cost half of a Buffer. The buffer has room for the text after the padded key.
 */
export function createHmacKey(key: Uint8Array): Hmac {
  const short = key.length > blockBytes ? hash("sha256", key, "buffer") : key;
  const inner = Buffer.alloc(blockBytes + maxShortBytes);
  const outer = Buffer.alloc(blockBytes + digestBytes);
  for (let i = 0; i < blockBytes; i += 1) {
    inner[i] = (short[i] ?? 0) ^ 0x36;
    outer[i] = (short[i] ?? 0) ^ 0x5c;
  }

  function long(parts: readonly (string | Uint8Array)[]): string {
    const hmac = createHmac("sha256", key);
    for (const part of parts) hmac.update(part);
    return hmac.digest("binary");
  }

  return {
    of(...parts) {
      let at = blockBytes;
      for (const part of parts) {
        // A UTF-16 unit has at most three UTF-8 bytes.
        const most = typeof part === "string" ? part.length * 3 : part.length;
        if (at + most > inner.length) return long(parts);
        if (typeof part === "string") at += inner.write(part, at);
        else {
          inner.set(part, at);
          at += part.length;
        }
      }
      outer.write(hash("sha256", inner.subarray(0, at), "binary"), blockBytes, "binary");
      return hash("sha256", outer, "binary");
    },
  };
}
