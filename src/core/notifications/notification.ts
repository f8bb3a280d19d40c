/** A webhook as it came over the wire. */
export interface ReceivedNotification {
  /** In their order; names in lower case, values with one character a byte. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** Without its question mark, as it came. */
  readonly query: string;
  readonly body: Uint8Array;
}

/** A rule of a provider, and what a notification has for it. */
export interface Lookup {
  /** Its position among the provider's, from 0. */
  readonly rule: number;
  /** `metadata.NAME` or `connection_config.NAME`. */
  readonly field: string;
  /** None: it says nothing of this. */
  readonly values: readonly string[];
}
