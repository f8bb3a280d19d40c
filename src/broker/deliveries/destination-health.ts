import { createLateCache } from "../../base/caches/late-cache.ts";
import type { World } from "../../base/world.ts";

/** Results of recent attempts by URL, since this process delivers. */
export interface DestinationHealth {
  onDelivered(environment: string, url: string): void;
  onFailed(environment: string, url: string, reason: string): void;
  lastDeliveredMs(environment: string, url: string): number | undefined;
  /** Returns the failures since the last delivery; undefined if there were none. */
  failuresOf(environment: string, url: string): DestinationFailures | undefined;
}

export interface DestinationFailures {
  readonly count: number;
  readonly lastMs: number;
  readonly reason: string;
}

const rememberedUrls = 1_000;

const keyOf = (environment: string, url: string): string => `${environment}\0${url}`;

export function createDestinationHealth({ now }: Pick<World, "now">): DestinationHealth {
  const delivered = createLateCache<number>({ max: rememberedUrls });
  const failed = createLateCache<DestinationFailures>({ max: rememberedUrls });
  return {
    onDelivered(environment, url) {
      const key = keyOf(environment, url);
      delivered.set(key, now());
      if (failed.size > 0) failed.delete(key);
    },
    onFailed(environment, url, reason) {
      const key = keyOf(environment, url);
      failed.set(key, { count: (failed.get(key)?.count ?? 0) + 1, lastMs: now(), reason });
    },
    lastDeliveredMs: (environment, url) => delivered.get(keyOf(environment, url)),
    failuresOf: (environment, url) => failed.get(keyOf(environment, url)),
  };
}
