/** The connection whose credentials a tried request carries. */
export interface TriedConnection {
  readonly environment: string;
  readonly integration: string;
  readonly id: string;
}
