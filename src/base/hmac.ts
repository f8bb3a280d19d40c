import { createHmac, hash } from "node:crypto";

/** HMAC-SHA-256 with one key, for many short texts. */
export interface Hmac {
  /** Returns the HMAC of the concatenated parts (text as UTF-8), with one character a byte. */
  of(...parts: readonly (string | Uint8Array)[]): string;
  /** Returns the HMAC of a name, with its length in four bytes before it, and a value. */
  ofNamed(name: string, value: Uint8Array): string;
}

const blockBytes = 64;
const digestBytes = 32;
const lengthBytes = 4;
/** For longer texts, `createHmac` is as fast. */
const maxShortBytes = 4_096;

/** Shared by all keys: the padded key, then the text, or the digest of both. */
const inner = Buffer.alloc(blockBytes + maxShortBytes);
const outer = Buffer.alloc(blockBytes + digestBytes);
/** The start of `inner` by its length: a view for each text would be garbage. */
const starts: (Uint8Array | undefined)[] = Array.from({ length: inner.length + 1 });

interface PaddedKey {
  readonly inner: Uint8Array;
  readonly outer: Uint8Array;
}

/** The key that both buffers begin with. */
let current: PaddedKey | undefined;

function begin(key: PaddedKey): void {
  if (current === key) return;
  current = key;
  inner.set(key.inner);
  outer.set(key.outer);
}

/** Returns the HMAC of the text in `inner` up to this position. */
function short(end: number): string {
  const text = starts[end] ?? inner.subarray(0, end);
  starts[end] = text;
  const digest = hash("sha256", text, "binary");
  // A loop is faster than a call of the encoder.
  for (let i = 0; i < digestBytes; i += 1) outer[blockBytes + i] = digest.charCodeAt(i);
  return hash("sha256", outer, "binary");
}

/**
 * RFC 2104: H(K ⊕ opad, H(K ⊕ ipad, text)), the same bytes as `createHmac`, whose setup takes 3 µs. Two one-shot hashes
 * take 0.9 µs, with text results, which cost half of a Buffer.
 */
export function createHmacKey(key: Uint8Array): Hmac {
  const padded = paddedKey(key);

  function long(parts: readonly (string | Uint8Array)[]): string {
    const hmac = createHmac("sha256", key);
    for (const part of parts) hmac.update(part);
    return hmac.digest("binary");
  }

  return {
    of(...parts) {
      begin(padded);
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
      return short(at);
    },
    ofNamed(name, value) {
      const nameAt = blockBytes + lengthBytes;
      if (nameAt + name.length * 3 + value.length > inner.length) {
        const length = Buffer.alloc(lengthBytes);
        length.writeUInt32BE(Buffer.byteLength(name));
        return long([length, name, value]);
      }
      begin(padded);
      const nameBytes = inner.write(name, nameAt);
      inner.writeUInt32BE(nameBytes, blockBytes);
      const valueAt = nameAt + nameBytes;
      if (value.length > 0) inner.set(value, valueAt);
      return short(valueAt + value.length);
    },
  };
}

function paddedKey(key: Uint8Array): PaddedKey {
  const bytes = key.length > blockBytes ? hash("sha256", key, "buffer") : key;
  const padded = { inner: new Uint8Array(blockBytes), outer: new Uint8Array(blockBytes) };
  for (let i = 0; i < blockBytes; i += 1) {
    padded.inner[i] = (bytes[i] ?? 0) ^ 0x36;
    padded.outer[i] = (bytes[i] ?? 0) ^ 0x5c;
  }
  return padded;
}
