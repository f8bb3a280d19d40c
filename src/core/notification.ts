/** A webhook as it came over the wire. */
export interface Received {
  /** In their order; names in lower case, values with one character a byte. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** Without its question mark, as it came. */
  readonly query: string;
  readonly body: Uint8Array;
}

/** One rule of a provider, with a value that a notification has for it. A rule may stand there with several. */
export interface Lookup {
  /** Its position among the provider's, from 0. */
  readonly rule: number;
  /** `metadata.NAME` or `connection_config.NAME`. */
  readonly field: string;
  readonly value: string;
}
