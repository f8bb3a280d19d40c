import type { Metrics } from "../../base/metrics/metrics.ts";
import { type Change, type Entry, StoreDamaged } from "../contract.ts";
import { decrypt, encrypt, tagLength, tagOf } from "./box.ts";
import { isKeyringKey } from "./data-key-wrapping.ts";
import type { Keyring } from "./keyring.ts";

/**
 * Envelope of a value in a sealed store. Secret values are encrypted with the data key of an epoch; all others carry an
 * authentication code. Both are bound to their key in the store.
 */
export interface ValueEnvelope {
  /** Returns the epoch that encrypted a value; undefined for a value that is only authenticated. */
  epochOf(value: Uint8Array): number | undefined;
  /** Throws `StoreDamaged` and `SealKeyMissing`. */
  open(entry: Entry): Uint8Array;
  /** Opens a value that is not secret without verifying it; the caller must have verified that `close` made it. */
  bare(closed: Uint8Array): Uint8Array;
  close(change: Pick<Change, "key" | "secret"> & { readonly value: Uint8Array }): Uint8Array;
  /** Number of encryptions since the start. */
  sealsMade(): number;
}

interface ValueEnvelopeOptions {
  readonly keyring: Keyring;
  readonly metrics: Metrics;
}

const sealedKind = 1;
const taggedKind = 2;
const epochBytes = 4;
const sealedHeadBytes = 1 + epochBytes;
const taggedHeadBytes = 1 + tagLength;

export function createValueEnvelope({ keyring, metrics }: ValueEnvelopeOptions): ValueEnvelope {
  let sealsMade = 0;
  let sealsCounted = 0;

  /** The metric counts the encryptions of a tick at once. */
  function countSeals(): void {
    metrics.seals.inc({ operation: "seal" }, sealsMade - sealsCounted);
    sealsCounted = sealsMade;
  }

  function untag(key: string, bytes: Buffer): Uint8Array {
    const value = bytes.subarray(taggedHeadBytes);
    const tag = tagOf(keyring.authentication, key, value);
    if (tag !== bytes.toString("latin1", 1, taggedHeadBytes)) throw new StoreDamaged(key);
    return value;
  }

  function unseal(key: string, bytes: Buffer): Uint8Array {
    const head = bytes.subarray(0, sealedHeadBytes);
    const secret = keyring.secretOf(head.readUInt32BE(1));
    metrics.seals.inc({ operation: "open" });
    try {
      return decrypt({ secret, boxed: bytes.subarray(sealedHeadBytes), about: aboutSealed(key, head) });
    } catch (cause) {
      throw new StoreDamaged(key, { cause });
    }
  }

  function seal(key: string, value: Uint8Array): Uint8Array {
    const { stored, secret } = keyring.current();
    if (secret === undefined) throw new Error("the current data key is not unwrapped");
    const head = headOf(stored.epoch);
    if (sealsMade === sealsCounted) queueMicrotask(countSeals);
    sealsMade += 1;
    return encrypt({ secret, value, about: aboutSealed(key, head), head });
  }

  return {
    epochOf: (value) =>
      value[0] === sealedKind && value.length >= sealedHeadBytes ? bufferOf(value).readUInt32BE(1) : undefined,
    open({ key, value }) {
      if (isKeyringKey(key)) return value;
      const bytes = bufferOf(value);
      if (bytes[0] === taggedKind) return untag(key, bytes);
      if (bytes[0] !== sealedKind || bytes.length < sealedHeadBytes) throw new StoreDamaged(key);
      return unseal(key, bytes);
    },
    bare: (closed) => closed.subarray(taggedHeadBytes),
    close({ key, value, secret }) {
      if (isKeyringKey(key)) return value;
      if (secret === true) return seal(key, value);
      const closed = Buffer.allocUnsafe(taggedHeadBytes + value.length);
      closed[0] = taggedKind;
      const tag = tagOf(keyring.authentication, key, value);
      // A loop is faster than a call of the encoder.
      for (let i = 0; i < tagLength; i += 1) closed[1 + i] = tag.charCodeAt(i);
      if (value.length > 0) closed.set(value, taggedHeadBytes);
      return closed;
    },
    sealsMade: () => sealsMade,
  };
}

const bufferOf = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** What the encrypted values of an epoch begin with. */
let lastHead = { epoch: -1, bytes: Buffer.alloc(sealedHeadBytes) };
function headOf(epoch: number): Buffer {
  if (lastHead.epoch === epoch) return lastHead.bytes;
  const bytes = Buffer.alloc(sealedHeadBytes);
  bytes[0] = sealedKind;
  bytes.writeUInt32BE(epoch, 1);
  lastHead = { epoch, bytes };
  return bytes;
}

// Associated data that binds a value to its key.
const aboutStart = Buffer.from("latchkey value\0");
const keyAt = aboutStart.length + sealedHeadBytes;
/** For most keys. A cipher copies its associated data. */
const shortAbout = Buffer.alloc(1_024);
shortAbout.set(aboutStart);
/** The start of `shortAbout` by its length: a view for each value would be garbage. */
const shortViews: (Buffer | undefined)[] = Array.from({ length: shortAbout.length + 1 });

function aboutSealed(key: string, head: Uint8Array): Buffer {
  if (keyAt + 3 * key.length > shortAbout.length) {
    return Buffer.concat([aboutStart, head, Buffer.from(key)]);
  }
  shortAbout.set(head, aboutStart.length);
  const end = keyAt + shortAbout.write(key, keyAt);
  const about = shortViews[end] ?? shortAbout.subarray(0, end);
  shortViews[end] = about;
  return about;
}
