import { StoreDamaged } from "../../store/contract.ts";
import { SealKeyMissing } from "../../store/sealed/seal-key.ts";
import type { SealedStore } from "../../store/sealed/sealed.ts";

/** Texts that callers keep for us: encrypted with the store's data key, which all replicas have. */
export interface SealedTexts {
  /** Returns the value as text that only `open` can read, and only with the same purpose. */
  seal(purpose: string, value: string): string;
  /** Returns the value; undefined if the text was changed, or was sealed for something else. */
  open(purpose: string, text: string): Promise<string | undefined>;
}

/** No key of the store begins like this, so that no stored value passes for a text, or the other way round. */
const keyOf = (purpose: string): string => `sealed-text\0${purpose}`;

export function createSealedTexts({ frames, keyring }: Pick<SealedStore, "frames" | "keyring">): SealedTexts {
  function opened(purpose: string, bytes: Buffer): string | undefined {
    try {
      return Buffer.from(frames.open({ key: keyOf(purpose), value: bytes, revision: 0 })).toString();
    } catch (error) {
      if (error instanceof StoreDamaged) return undefined;
      throw error;
    }
  }

  return {
    seal(purpose, value) {
      const bytes = frames.close({ key: keyOf(purpose), value: Buffer.from(value), secret: true });
      return Buffer.from(bytes).toString("base64url");
    },
    async open(purpose, text) {
      const bytes = Buffer.from(text, "base64url");
      if (frames.epochOf(bytes) === undefined) return undefined;
      try {
        return opened(purpose, bytes);
      } catch (error) {
        if (!(error instanceof SealKeyMissing)) throw error;
      }
      // Another replica may have started an epoch in the meantime.
      await keyring.refresh();
      try {
        return opened(purpose, bytes);
      } catch (error) {
        if (error instanceof SealKeyMissing) return undefined;
        throw error;
      }
    },
  };
}
