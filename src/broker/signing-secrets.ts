/** What an environment signs with. */
export interface SigningSecrets {
  /** Those that sign now, the newest first; there is always one. Known in memory. */
  of(environment: string): Promise<readonly string[]>;
}
