import { createHmac, createSecretKey, type KeyObject, randomBytes } from "node:crypto";
import { StaleWrite, type Store } from "../store/contract.ts";
import { recordDigestKey } from "./collections.ts";

/**
 * What stands for the id of a record where it lies in the open. Ids name people, and a plain hash of an address is
 * soon guessed: so it is hashed with a key, which is made once and lies sealed in the store.
 */
export interface RecordDigests {
  /** 16 bytes. The same id in another connection or model has another digest. */
  of(at: DigestScope, id: string): Buffer;
}

export interface DigestScope {
  readonly connectionNumber: number;
  readonly model: string;
  readonly variant: string;
}

/** Made when it is first asked for: a store without records has none. */
export function createRecordDigests(store: Store): () => Promise<RecordDigests> {
  let known: Promise<RecordDigests> | undefined;
  return () => {
    known ??= keyIn(store).then(digestsWith, (error: unknown) => {
      known = undefined;
      throw error;
    });
    return known;
  };
}

async function keyIn(store: Store): Promise<KeyObject> {
  for (;;) {
    const found = await store.get(recordDigestKey);
    if (found !== undefined) return createSecretKey(found.value);
    try {
      await store.commit([{ key: recordDigestKey, value: randomBytes(32), secret: true, expect: 0 }]);
    } catch (error) {
      // Another replica has made it.
      if (!(error instanceof StaleWrite)) throw error;
    }
  }
}

const digestBytes = 16;

const digestsWith = (key: KeyObject): RecordDigests => ({
  of: ({ connectionNumber, model, variant }, id) =>
    createHmac("sha256", key)
      .update(`${connectionNumber}\0${model}\0${variant}\0${id}`)
      .digest()
      .subarray(0, digestBytes),
});

/** As keys have it. */
export const digestText = (digest: Buffer): string => digest.toString("base64url");
