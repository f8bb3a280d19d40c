import type { ObservedCommit } from "./world/group-commits.ts";
import { world } from "./world/world.ts";

/** Watches what commits on the server, for what no caller can see. */
export class Observer {
  /** The process that committed under a fence, by partition and revision of its record. */
  readonly #holders = new Map<string, string>();
  readonly #refreshedAt = new Map<string, number>();
  readonly #leastMs: number;
  refreshes = 0;
  fenced = 0;
  /** While set, credentials may be stored again: their process was told nothing. */
  readonly #excused: (key: string) => boolean;

  constructor({ leastMs, isExcused }: { readonly leastMs: number; readonly isExcused: (key: string) => boolean }) {
    this.#leastMs = leastMs;
    this.#excused = isExcused;
  }

  /** Revisions are used again, and tokens too. */
  rolledBack(): void {
    this.#holders.clear();
    this.#refreshedAt.clear();
  }

  observe({ by, revision, changes, conditions, before }: ObservedCommit): void {
    const process = by === undefined ? "?" : `${by.name} since ${by.bornAt}`;
    for (const { key, revision: held } of conditions) {
      if (!key.startsWith("partition\0") || changes.some((change) => change.key === key)) continue;
      this.fenced += 1;
      const fence = `${key.split("\0")[1]} at ${held}`;
      const holder = this.#holders.get(fence);
      if (holder === undefined) this.#holders.set(fence, process);
      else if (holder !== process) world.fail("partitions", `${process} and ${holder} commit for partition ${fence}`);
    }
    for (const { key, value } of changes) {
      if (!key.startsWith("credentials\0dev\0tokens\0")) continue;
      if (value === undefined || before.get(key) === 0) {
        this.#refreshedAt.delete(key);
        continue;
      }
      this.refreshes += 1;
      const last = this.#refreshedAt.get(key) ?? Number.NEGATIVE_INFINITY;
      const apartMs = world.time.now - last;
      if (apartMs < this.#leastMs && !this.#excused(key)) {
        world.fail(
          "refreshes",
          `${key.split("\0")[3]} is refreshed again after ${apartMs} ms, at revision ${revision}`,
        );
      }
      this.#refreshedAt.set(key, world.time.now);
    }
  }
}
