import type { TokenProvider } from "./token-provider.ts";
import type { ObservedCommit } from "./world/group-commits.ts";
import { world } from "./world/world.ts";

/** Watches what commits on the server, for what no caller can see. */
export class Observer {
  /** The process that committed under a fence, by partition and revision of its record. */
  readonly #holders = new Map<string, string>();
  readonly #tokens: TokenProvider;
  refreshes = 0;
  fenced = 0;

  constructor(tokens: TokenProvider) {
    this.#tokens = tokens;
  }

  /** Revisions are used again, and tokens too. */
  rolledBack(): void {
    this.#holders.clear();
    this.#tokens.noteRollback();
  }

  observe({ by, changes, conditions, before }: ObservedCommit): void {
    const process = by === undefined ? "?" : `${by.name} since ${by.bornAt}`;
    for (const { key, revision: held } of conditions) {
      if (!key.startsWith("partition\0") || changes.some((change) => change.key === key)) continue;
      this.fenced += 1;
      const fence = `${key.split("\0")[1]} at ${held}`;
      const holder = this.#holders.get(fence);
      if (holder === undefined) this.#holders.set(fence, process);
      else if (holder !== process) world.fail("partitions", `${process} and ${holder} commit for partition ${fence}`);
    }
    const isFenced = conditions.some(({ key }) => key.startsWith("partition\0"));
    for (const { key, value } of changes) {
      // A delivery that succeeded is stored by anybody; one that failed by its partition's owner.
      const isPutOff = key.startsWith("forward.waiting\0") && value !== undefined && before.get(key) !== 0;
      if (isPutOff && !isFenced) world.fail("partitions", `${process} puts a delivery off without a fence`);
      if (!key.startsWith("credentials\0dev\0tokens\0")) continue;
      if (value === undefined || before.get(key) === 0) continue;
      this.refreshes += 1;
      this.#tokens.noteStored(key.split("\0")[3] ?? "", by);
    }
  }
}
