import { keyOf, partsOf } from "../../store/keys.ts";

/** Channels by the IDs that their providers chose. A provider may use one ID in several accounts. */
export interface ProviderIds {
  /** Returns Latchkey's ID; undefined: the provider's ID is unknown, or names several channels. */
  idOf(named: NamedByProvider): string | undefined;
  /** Replaces what is known of a channel: the names of its integration, its connection and the provider's ID. */
  replace(key: string, before: string | undefined, after: string | undefined): void;
}

interface NamedByProvider {
  readonly environment: string;
  readonly integration: string;
  readonly id: string;
}

export function createProviderIds(): ProviderIds {
  const ids = new Map<string, readonly string[]>();
  return {
    idOf({ environment, integration, id }) {
      const named = ids.size === 0 ? undefined : ids.get(keyOf(environment, integration, id));
      return named?.length === 1 ? named[0] : undefined;
    },
    replace(key, before, after) {
      const [old, now] = [nameIn(key, before), nameIn(key, after)];
      if (old === now) return;
      const id = partsOf(key)[2] ?? "";
      if (old !== undefined) {
        const left = (ids.get(old) ?? []).filter((one) => one !== id);
        if (left.length === 0) ids.delete(old);
        else ids.set(old, left);
      }
      if (now !== undefined) ids.set(now, [...(ids.get(now) ?? []), id]);
    },
  };
}

/** Returns the key in the index; undefined: the provider has chosen no ID. */
function nameIn(key: string, names: string | undefined): string | undefined {
  const [integration = "", , providerId = ""] = names?.split("\0", 3) ?? [];
  return providerId === "" ? undefined : keyOf(partsOf(key)[1] ?? "", integration, providerId);
}
