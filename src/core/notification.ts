/** A webhook as it came over the wire. */
export interface Received {
  /** In their order; names in lower case, values with one character a byte. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** Without its question mark, as it came. */
  readonly query: string;
  readonly body: Uint8Array;
}
