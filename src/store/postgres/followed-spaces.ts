import { HistoryLost } from "../contract.ts";

/**
 * The spaces that watchers of this process have named. Changes of other processes in other spaces, such as records of
 * syncs, logs and the audit trail, are left on the server: they are most of what is written.
 */
export interface FollowedSpaces {
  /** Undefined: all. Another array after each addition: a read that began with an older one may lack changes. */
  readonly names: readonly string[] | undefined;
  /**
   * Follows these spaces from now on, for good; undefined: all. Throws `HistoryLost` if changes after `from` may have
   * been left out.
   */
  add(spaces: readonly string[] | undefined, from: number): void;
  /** The history begins again at this revision, which may be lower than those before. */
  restart(revision: number): void;
}

/** `now` returns the latest known revision. Until the first call of `add`, all spaces are followed. */
export function createFollowedSpaces(now: () => number): FollowedSpaces {
  /** From which revision on each space is known. */
  const since = new Map<string, number>();
  let allSince = 0;
  let isOfAll = false;
  let names: readonly string[] | undefined;

  function addAll(): void {
    if (isOfAll) return;
    isOfAll = true;
    if (names !== undefined) allSince = now();
    names = undefined;
  }

  function addSome(spaces: readonly string[]): void {
    if (isOfAll) return;
    const fresh = spaces.filter((space) => !since.has(space));
    for (const space of fresh) since.set(space, names === undefined ? 0 : now());
    if (fresh.length > 0 || names === undefined) names = [...since.keys()];
  }

  return {
    get names() {
      return names;
    },
    add(spaces, from) {
      if (spaces === undefined) addAll();
      else addSome(spaces);
      const oldest = spaces?.map((space) => since.get(space) ?? allSince) ?? [allSince];
      const lost = Math.max(0, ...oldest);
      if (from < lost) throw new HistoryLost(lost);
    },
    restart(revision) {
      for (const [space, known] of since) since.set(space, Math.min(known, revision));
      allSince = Math.min(allSince, revision);
    },
  };
}
