import { sharedAccount } from "../../../core/shared-account.ts";
import type { Connection } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
import { lookupFields } from "./connection-lookups.ts";
import { createLookupRowsState, type LookupRowsState } from "./lookup-rows-state.ts";

/**
 * Fields by which connections of a provider are indexed. The collections need them for every write, and are created
 * before the providers.
 */
export interface LookupFields {
  /**
   * Returns the fields of a provider. A provider that is unknown now, because the file no longer declares it, keeps its
   * last known fields.
   */
  of(provider: string): readonly string[];
  /** Returns undefined if the provider is unknown. */
  known(provider: string): readonly string[] | undefined;
  /** Returns the account whose grant a connection shares with others. */
  sharedAccountOf(connection: Connection): string | undefined;
  /** Sets where providers are looked up from now on. */
  askOf(providers: { lookUp(name: string): Provider | undefined }): void;
  /** Records the fields by which connections were indexed. */
  remember(provider: string, fields: readonly string[]): void;
  /** Whether each value is stored under a key of its own. */
  readonly rows: LookupRowsState;
}

export function createLookupFields(): LookupFields {
  const remembered = new Map<string, readonly string[]>();
  /** Cached by object: a provider that changes is a new object. */
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
    sharedAccountOf: (connection) => sharedAccount(connection, lookUp(connection.provider)?.revocation),
    of: (name) => known(name) ?? remembered.get(name) ?? [],
    askOf(providers) {
      lookUp = providers.lookUp;
    },
    remember: (name, fields) => void remembered.set(name, fields),
    rows: createLookupRowsState(),
  };
}
