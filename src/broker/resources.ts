import type { ConnectionRef } from "../gen/latchkey/v1/connection_pb.ts";

/** Which connections a notification concerns, known in memory. */
export interface Resources {
  /** The first rule that finds any, and all that it finds. */
  match(
    at: { readonly environment: string; readonly integration: string },
    lookups: readonly Lookup[],
  ): { readonly rule: number; readonly matches: readonly ConnectionRef[] };
  close(): void;
}

/** One rule of a provider, with the value that a notification has for it. */
export interface Lookup {
  /** Its position among the provider's, from 0. */
  readonly rule: number;
  /** `metadata.NAME` or `connection_config.NAME`. */
  readonly field: string;
  readonly value: string;
}
