import type { Commit } from "../../contract.ts";
import type { History } from "../../history.ts";
import { partsOf } from "../../keys.ts";

/**
 * Which commits are announced to other processes, and whether announcements arrive here. A connection that only
 * listens can be dead without a sign, for example behind a firewall that forgot it.
 */
export interface Bell {
  /** Reports whether other processes must know of these commits at once. */
  announces(commits: readonly Commit[]): boolean;
  /** An announcement arrived. */
  rang(): void;
  /** Reports whether announcements of commits that this process has seen should have arrived, but did not. */
  isMissed(): boolean;
  /** Reports whether commits that are announced came since the last call. */
  hasNews(): boolean;
}

/**
 * First parts of keys that only renew a term. Every process renews something every few seconds; if each renewal woke
 * all the others, an idle fleet would cost the square of its size. Who reads a renewal late asks again before it acts.
 * The first term and the last are announced.
 */
const quietSpaces: ReadonlySet<string> = new Set(["lease-term", "member"]);
/** Announcements arrive this long before or after the commit is seen. */
const toleranceMs = 1_000;

/** Renewals look like the first term, to those who see only a commit. */
const mayRenew = ({ changes }: Commit): boolean =>
  changes.every(({ key, value }) => value !== undefined && quietSpaces.has(partsOf(key)[0] ?? ""));

export function createBell(history: History): Bell {
  let rangAt = Number.NEGATIVE_INFINITY;
  let unannouncedSince: number | undefined;
  let isNews = false;
  /** Terms that this process has announced. */
  const announced = new Set<string>();

  function isRenewal(commit: Commit): boolean {
    const isFirst = commit.changes.some(({ key }) => !announced.has(key));
    for (const { key, value } of commit.changes) {
      if (value === undefined) announced.delete(key);
      else if (quietSpaces.has(partsOf(key)[0] ?? "")) announced.add(key);
    }
    return !isFirst && mayRenew(commit);
  }

  function onCommit(commit: Commit): void {
    if (mayRenew(commit)) return;
    isNews = true;
    const now = performance.now();
    if (now - rangAt > toleranceMs) unannouncedSince ??= now;
  }

  function watch(): void {
    history.watch(history.revision, { onCommit, onLost: watch });
  }

  watch();
  return {
    announces: (commits) => commits.filter((commit) => !isRenewal(commit)).length > 0,
    rang() {
      rangAt = performance.now();
      unannouncedSince = undefined;
    },
    isMissed: () => unannouncedSince !== undefined && performance.now() - unannouncedSince > toleranceMs,
    hasNews() {
      const had = isNews;
      isNews = false;
      return had;
    },
  };
}
