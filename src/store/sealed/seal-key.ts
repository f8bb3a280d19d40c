import { createSecretKey } from "node:crypto";
import { decrypt, encrypt } from "./box.ts";

/**
 * Wraps the data keys: either a configured key, or one that never leaves a key service. Used at start and when a data
 * key is created, never for a single value.
 */
export interface SealKey {
  readonly id: string;
  /** `about` is associated data that the wrapped key is bound to. */
  wrap(plain: Uint8Array, about: Uint8Array): Promise<Uint8Array>;
  /** Rejects if this key did not wrap the data, or with other associated data. */
  unwrap(wrapped: Uint8Array, about: Uint8Array): Promise<Uint8Array>;
}

interface LocalSealKey {
  readonly id: string;
  /** 32 bytes. */
  readonly secret: Uint8Array;
}

/** Creates a seal key from the configuration: an environment variable, or better, a mounted file. */
export function localSealKey({ id, secret: bytes }: LocalSealKey): SealKey {
  const secret = createSecretKey(bytes);
  return {
    id,
    wrap: async (value, about) => encrypt({ secret, value, about }),
    unwrap: async (boxed, about) => decrypt({ secret, boxed, about }),
  };
}

/** A seal key that the store needs is not configured, or has changed. */
export class SealKeyMissing extends Error {
  override readonly name = "SealKeyMissing";
}
