import type { Rate } from "./token-buckets.ts";

/** Request rate limits for callers of providers. Undefined means unlimited. */
export interface Rates extends IntegrationRates {
  readonly perKey: Rate | undefined;
  /** Limits by `integrationName`; each replaces the general limits. */
  readonly integrations: ReadonlyMap<string, IntegrationRates>;
}

export interface IntegrationRates {
  /** Limit for all connections of the integration together. */
  readonly perIntegration: Rate | undefined;
  readonly perConnection: Rate | undefined;
}

/** Neither part contains a NUL, so joined names cannot collide. */
export const integrationName = (environment: string, integration: string): string => `${environment}\0${integration}`;
