import { createSecretKey, type KeyObject, randomBytes } from "node:crypto";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type DataKey, DataKeySchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Change, Entry } from "../contract.ts";
import { keyOf } from "../keys.ts";
import { type SealKey, SealKeyMissing } from "./seal-key.ts";

/** Wraps data keys with the configured seal keys, and unwraps them. */
export interface DataKeyWrapping {
  /** Returns the change that stores a new data key. */
  make(epoch: number, by: SealKey, createdMs: number): Promise<Change>;
  /** Returns the change that stores a data key, wrapped by this seal key. */
  wrap(key: DataKeyToWrap, by: SealKey): Promise<Change>;
  /** Returns undefined if its seal key is not configured. Throws `SealKeyMissing` if the seal key is another one. */
  unwrap(stored: DataKey): Promise<KeyObject | undefined>;
  /** Returns the seal key of a data key; undefined if it is not configured. */
  sealKeyOf(stored: DataKey): SealKey | undefined;
  /** Returns the error for a data key whose seal key is not configured. */
  missing(stored: DataKey): SealKeyMissing;
  /** A key was found that was wrapped before values were authenticated. */
  readonly isOfFirstFormat: boolean;
}

export interface DataKeyToWrap {
  readonly epoch: number;
  readonly secret: Uint8Array;
  readonly createdMs: number;
  /** The revision that the stored key must be at. */
  readonly expect: number;
  readonly closed?: boolean;
}

/** First part of the keys that hold data keys. */
export const dataKeySpace = "seal";
const ownPrefix = `${dataKeySpace}\0`;
const firstOfPrefix = dataKeySpace.charCodeAt(0);
const besidePrefix = `${dataKeySpace}-`;
export const isKeyringKey = (key: string): boolean =>
  // All values pass here: this first look leaves out nearly all keys.
  key.charCodeAt(0) === firstOfPrefix && (key.startsWith(ownPrefix) || key.startsWith(besidePrefix));
/** Returns the data key in an entry; undefined for any other entry. */
export const dataKeyIn = ({ key, value }: Pick<Entry, "key" | "value">): DataKey | undefined =>
  key.startsWith(ownPrefix) ? fromBinary(DataKeySchema, value) : undefined;
// Zero-padded, so that epochs sort numerically.
export const keyForEpoch = (epoch: number): string => keyOf(dataKeySpace, String(epoch).padStart(10, "0"));
/** Associated data of a wrapped key. Keys from before values were authenticated lack the version part. */
const aboutKey = (epoch: number, sealKeyId: string) => Buffer.from(`latchkey data key\0${epoch}\0${sealKeyId}\0v2`);
const aboutFirstKey = (epoch: number, sealKeyId: string) => Buffer.from(`latchkey data key\0${epoch}\0${sealKeyId}`);

export function createDataKeyWrapping(keys: readonly SealKey[]): DataKeyWrapping {
  const configured = keys.map(({ id }) => `"${id}"`).join(", ");
  const sealKeyOf = ({ sealKeyId }: DataKey) => keys.find(({ id }) => id === sealKeyId);
  let isOfFirstFormat = false;

  async function wrap(
    { epoch, secret, createdMs, expect, closed = false }: DataKeyToWrap,
    by: SealKey,
  ): Promise<Change> {
    const wrapped = await by.wrap(secret, aboutKey(epoch, by.id));
    const createdAt = timestampFromMs(createdMs);
    const stored = create(DataKeySchema, { epoch, sealKeyId: by.id, wrapped, createdAt, closed });
    return { key: keyForEpoch(epoch), value: toBinary(DataKeySchema, stored), expect };
  }

  return {
    make: (epoch, by, createdMs) => wrap({ epoch, secret: randomBytes(32), createdMs, expect: 0 }, by),
    wrap,
    async unwrap(stored) {
      const { epoch, sealKeyId, wrapped } = stored;
      const sealKey = sealKeyOf(stored);
      if (sealKey === undefined) return undefined;
      try {
        return createSecretKey(await sealKey.unwrap(wrapped, aboutKey(epoch, sealKeyId)));
      } catch (cause) {
        const secret = await sealKey.unwrap(wrapped, aboutFirstKey(epoch, sealKeyId)).catch(() => {
          const message = `the encryption key "${sealKeyId}" is not the one that the store was encrypted with (configured: ${configured})`;
          throw new SealKeyMissing(message, { cause });
        });
        isOfFirstFormat = true;
        return createSecretKey(secret);
      }
    },
    sealKeyOf,
    missing: ({ sealKeyId }) =>
      new SealKeyMissing(
        `the store is encrypted with the encryption key "${sealKeyId}", which is not configured (configured: ${configured})`,
      ),
    get isOfFirstFormat() {
      return isOfFirstFormat;
    },
  };
}
