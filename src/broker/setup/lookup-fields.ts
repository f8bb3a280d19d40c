import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import { lookupFields } from "../connections/connection-lookups.ts";

/**
 * The fields that connections of a provider are filed by. The collections ask for them with every write, and are
 * there before the providers are.
 */
export interface LookupFields {
  /** Of a provider that nobody knows just now, because the file that declared it no longer does: as it last was. */
  of(provider: string): readonly string[];
  /** Undefined: nobody knows the provider. */
  known(provider: string): readonly string[] | undefined;
  /** From now on. */
  askOf(providers: { lookUp(name: string): Provider | undefined }): void;
  /** By what connections were filed. */
  remember(provider: string, fields: readonly string[]): void;
}

export function createLookupFields(): LookupFields {
  const remembered = new Map<string, readonly string[]>();
  /** A provider that changes is another object. */
  const made = new WeakMap<Provider, readonly string[]>();
  let lookUp: (name: string) => Provider | undefined = () => undefined;

  function known(name: string): readonly string[] | undefined {
    const provider = lookUp(name);
    if (provider === undefined) return undefined;
    const fields = made.get(provider) ?? lookupFields(provider);
    made.set(provider, fields);
    return fields;
  }

  return {
    known,
    of: (name) => known(name) ?? remembered.get(name) ?? [],
    askOf(providers) {
      lookUp = providers.lookUp;
    },
    remember: (name, fields) => void remembered.set(name, fields),
  };
}
