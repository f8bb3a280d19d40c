/** The name of an integration. */
export interface IntegrationName {
  readonly environment: string;
  readonly integration: string;
}

/** Names contain no NUL, so that no two integrations have the same key. */
export const integrationKey = ({ environment, integration }: IntegrationName): string =>
  `${environment}\0${integration}`;
