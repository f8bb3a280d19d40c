import type { Backend } from "../../store/contract.ts";
import { countSealed } from "../../store/sealed/rewrite.ts";
import type { SealedStore } from "../../store/sealed/sealed.ts";

export interface SealKeyUse {
  readonly id: string;
  readonly isConfigured: boolean;
  /** The number of data keys that this seal key wraps. */
  readonly dataKeys: number;
  /** The number of values encrypted with those data keys; undefined unless requested. */
  readonly sealedValues: number | undefined;
  readonly isNeeded: boolean;
}

interface SealKeysRequest {
  readonly store: SealedStore;
  readonly backend: Backend;
  /** Also counts the encrypted values, which reads the whole store. */
  readonly countValues: boolean;
  readonly signal: AbortSignal;
}

/** Returns the seal keys, configured ones first, and whether the store still needs each. */
export async function listSealKeys({
  store: { keyring, frames },
  backend,
  countValues,
  signal,
}: SealKeysRequest): Promise<readonly SealKeyUse[]> {
  await keyring.refresh();
  const counts = countValues ? await countSealed({ backend, frames, signal }) : undefined;
  const { sealKeyIds: configured } = keyring;
  const dataKeys = keyring.held().map(({ stored }) => stored);
  const ids = new Set([...configured, ...dataKeys.map(({ sealKeyId }) => sealKeyId)]);
  return [...ids].map((id) => {
    const wrapped = dataKeys.filter(({ sealKeyId }) => sealKeyId === id);
    return {
      id,
      isConfigured: configured.includes(id),
      dataKeys: wrapped.length,
      sealedValues: counts && wrapped.reduce((sum, { epoch }) => sum + (counts.get(epoch) ?? 0), 0),
      isNeeded: id === configured[0] || wrapped.length > 0,
    };
  });
}
