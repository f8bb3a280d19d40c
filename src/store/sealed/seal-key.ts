import { createSecretKey } from "node:crypto";
import { decrypt, encrypt } from "./box.ts";

/**
 * What wraps the data keys: a key that we are given, or one that never leaves a key service. Asked for at start, and
 * when a data key is made: never for a single value.
 */
export interface SealKey {
  readonly id: string;
  /** `about` is what the wrapped key is bound to. */
  wrap(plain: Uint8Array, about: Uint8Array): Promise<Uint8Array>;
  /** Rejects when it did not wrap this, or not about this. */
  unwrap(wrapped: Uint8Array, about: Uint8Array): Promise<Uint8Array>;
}

interface LocalSealKey {
  readonly id: string;
  /** 32 bytes. */
  readonly secret: Uint8Array;
}

/** A key from the configuration: a variable, or better a mounted file. */
export function localSealKey({ id, secret: bytes }: LocalSealKey): SealKey {
  const secret = createSecretKey(bytes);
  return {
    id,
    wrap: async (value, about) => encrypt({ secret, value, about }),
    unwrap: async (boxed, about) => decrypt({ secret, boxed, about }),
  };
}

/** A seal key that the store depends on is not configured, or is not what it was. */
export class SealKeyMissing extends Error {
  override readonly name = "SealKeyMissing";
}
