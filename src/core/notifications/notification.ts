/** A webhook as received. */
export interface ReceivedNotification {
  /** In the order received; names in lower case, values with one character per byte. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** The query string as received, without its question mark. */
  readonly query: string;
  readonly body: Uint8Array;
}

/** A rule of a provider, with the values that a notification has for the rule. */
export interface Lookup {
  /** Position among the provider's rules, from 0. */
  readonly rule: number;
  /** `metadata.NAME` or `connection_config.NAME`. */
  readonly field: string;
  /** Empty: the notification has no value for this rule. */
  readonly values: readonly string[];
}
