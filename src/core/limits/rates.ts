import type { Rate } from "./token-buckets.ts";

/** How often callers may go to providers. What is undefined has no limit. */
export interface Rates extends IntegrationRates {
  readonly perKey: Rate | undefined;
  /** By `integrationName`: what holds there, in place of what holds for all. */
  readonly integrations: ReadonlyMap<string, IntegrationRates>;
}

export interface IntegrationRates {
  /** Of all its connections together. */
  readonly perIntegration: Rate | undefined;
  readonly perConnection: Rate | undefined;
}

/** Neither holds a NUL, so that joined they cannot collide. */
export const integrationName = (environment: string, integration: string): string => `${environment}\0${integration}`;
