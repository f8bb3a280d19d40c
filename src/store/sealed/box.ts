import { createCipheriv, createDecipheriv, type KeyObject, randomBytes } from "node:crypto";
import { createHmacKey, type Hmac } from "../../base/hmac.ts";

/** AES-256-GCM: nonce, ciphertext, tag. Decryption needs the same associated data (`about`). */
const cipher = "aes-256-gcm";
const nonceBytes = 12;
const tagBytes = 16;
export const boxOverheadBytes = nonceBytes + tagBytes;

interface PlainValue {
  readonly secret: KeyObject;
  readonly value: Uint8Array;
  readonly about: Uint8Array;
  /** Precedes the result, in the clear. */
  readonly head?: Uint8Array;
}

const empty = new Uint8Array();

export function encrypt({ secret, value, about, head = empty }: PlainValue): Buffer {
  takeNonce();
  const box = createCipheriv(cipher, secret, nonce).setAAD(about);
  const valueAt = head.length + nonceBytes;
  const tagAt = valueAt + value.length;
  const sealed = Buffer.allocUnsafe(tagAt + tagBytes);
  sealed.set(head);
  sealed.set(nonce, head.length);
  sealed.set(box.update(value), valueAt);
  // GCM has encrypted everything by now: `final` only computes the tag.
  box.final();
  sealed.set(box.getAuthTag(), tagAt);
  return sealed;
}

interface EncryptedValue {
  readonly secret: KeyObject;
  readonly boxed: Uint8Array;
  readonly about: Uint8Array;
}

/** Throws if the value was encrypted with another key or other associated data. */
export function decrypt({ secret, boxed, about }: EncryptedValue): Buffer {
  if (boxed.length < boxOverheadBytes) throw new Error("too short to be encrypted");
  const tagAt = boxed.length - tagBytes;
  const box = createDecipheriv(cipher, secret, boxed.subarray(0, nonceBytes), { authTagLength: tagBytes })
    .setAAD(about)
    .setAuthTag(boxed.subarray(tagAt));
  return Buffer.concat([box.update(boxed.subarray(nonceBytes, tagAt)), box.final()]);
}

let nonces: Buffer = Buffer.alloc(0);
let nonceAt = 0;
/** The nonce of the value that is being encrypted: the cipher copies it. A view for each value would be garbage. */
const nonce = Buffer.alloc(nonceBytes);

/**
 * Random nonces, generated in batches: one at a time, they would cost half as much as the encryption. No byte is used
 * twice.
 */
function takeNonce(): void {
  if (nonceAt >= nonces.length) {
    nonces = randomBytes(512 * nonceBytes);
    nonceAt = 0;
  }
  nonces.copy(nonce, 0, nonceAt, nonceAt + nonceBytes);
  nonceAt += nonceBytes;
}

/**
 * The first half of an HMAC-SHA-256 of a value and its key in the store, which cannot be forged without the secret. One
 * character per byte.
 */
export function tagOf(secret: KeyObject, storeKey: string, value: Uint8Array): string {
  let key = hmacKeys.get(secret);
  if (key === undefined) {
    key = createHmacKey(secret.export());
    hmacKeys.set(secret, key);
  }
  return key.ofNamed(storeKey, value).slice(0, tagBytes);
}

const hmacKeys = new WeakMap<KeyObject, Hmac>();

export const tagLength = tagBytes;
