/**
 * Concurrent deliveries to one destination, if no limit is set. Replicas are added for more deliveries, but an
 * application has an end too.
 */
const usual = { ofReplica: 32, ofAll: 128 };

/**
 * Returns how many deliveries this replica may have at once to one destination. A limit that is set holds for all
 * replicas together, by their shares.
 */
export function destinationLimit(set: number | undefined, shareOf: (limit: number) => number): number {
  return set === undefined ? Math.min(usual.ofReplica, shareOf(usual.ofAll)) : shareOf(set);
}
