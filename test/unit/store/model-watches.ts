import { setTimeout as sleep } from "node:timers/promises";
import type { Commit } from "../../../src/store/contract.ts";
import { show, showDifference } from "./model-show.ts";
import { apply, areSame, inOrder, isTrueOf, type State } from "./model-state.ts";

/** Watches of a model run: their events are compared with what happened. */
export interface ModelWatches {
  readonly size: number;
  /** The oldest watch. */
  readonly oldest: number | undefined;
  begin(watch: number, from: State): void;
  /** From now on the watch sees a commit before its caller gets the answer. */
  begun(watch: number): void;
  end(watch: number): void;
  endAll(): void;
  heard(watch: number, commit: Commit): void;
  /** The store no longer has the next event of this watch. */
  lost(watch: number): void;
  /** A commit resolved. */
  acknowledged(revision: number): void;
  /** Once the history is known: no event was wrong, out of order or too late. */
  check(): void;
  /** Waits until a watch has seen everything. */
  requireTold(watch: number): Promise<void>;
  /** After a crash that the watches survived: those without history end, the others see the rest. */
  outlive(): Promise<void>;
}

interface ModelWatchesOptions {
  /** The known history. */
  readonly history: ReadonlyMap<number, Commit>;
  readonly now: () => State;
  /** The first revision that the watching process committed itself. */
  readonly ownSince: () => number;
  readonly insist: (holds: boolean, sentence: () => string) => asserts holds;
}

interface Watching {
  /** The watch's events, applied to its first state. */
  state: State;
  readonly heard: Commit[];
  /** The revision of the last event. */
  reached: number;
  isBegun: boolean;
  isLost: boolean;
}

const toldWithinMs = 10_000;

export function createModelWatches(options: ModelWatchesOptions): ModelWatches {
  const { history, now, ownSince } = options;
  const insist: ModelWatchesOptions["insist"] = options.insist;
  const watches = new Map<number, Watching>();
  /** Commits that were acknowledged before a watch saw them. */
  const early = new Set<number>();

  /** Requires all commits of this process, and no wrong ones of others. */
  function fold(watch: Watching): void {
    insist(!watch.isLost, () => "a watch lost the history");
    for (const { revision, changes } of watch.heard.splice(0)) {
      const { revision: last, entries } = watch.state;
      const did = history.get(revision);
      const isOwn = revision > ownSince();
      const isNext = isOwn ? revision === Math.max(last, ownSince()) + 1 : revision > last;
      insist(did !== undefined && isNext, () => `a watch at ${last} was told of ${revision}`);
      insist(isTrueOf(changes, did, { partly: !isOwn }), () => `a watch was told ${show(changes)} of ${revision}`);
      watch.state = apply({ revision: revision - 1, entries }, changes);
    }
  }

  async function requireTold(watch: Watching): Promise<void> {
    const until = performance.now() + toldWithinMs;
    fold(watch);
    while (!areSame(inOrder(watch.state), inOrder(now())) && performance.now() < until) {
      await sleep(10);
      fold(watch);
    }
    const [told, is] = [inOrder(watch.state), inOrder(now())];
    insist(areSame(told, is), () => `a watch has not heard it all: ${showDifference(told, is)}`);
  }

  function watching(name: number): Watching {
    const watch = watches.get(name);
    if (watch === undefined) throw new Error(`there is no watch ${name}`);
    return watch;
  }

  return {
    get size() {
      return watches.size;
    },
    get oldest() {
      return watches.keys().next().value;
    },
    begin(name, from) {
      watches.set(name, { state: from, heard: [], reached: from.revision, isBegun: false, isLost: false });
    },
    begun(name) {
      watching(name).isBegun = true;
    },
    end: (name) => void watches.delete(name),
    endAll: () => watches.clear(),
    heard(name, commit) {
      const watch = watches.get(name);
      // The watch has ended in the meantime.
      if (watch === undefined) return;
      watch.heard.push(commit);
      watch.reached = commit.revision;
    },
    lost(name) {
      const watch = watches.get(name);
      if (watch !== undefined) watch.isLost = true;
    },
    acknowledged(revision) {
      for (const { isBegun, reached } of watches.values()) if (isBegun && reached < revision) early.add(revision);
    },
    check() {
      insist(early.size === 0, () => `commits ${[...early].join(", ")} resolved before those who watch were told`);
      for (const watch of watches.values()) fold(watch);
    },
    requireTold: (name) => requireTold(watching(name)),
    async outlive() {
      early.clear();
      for (const [name, { isLost }] of watches) if (isLost) watches.delete(name);
      for (const watch of watches.values()) await requireTold(watch);
    },
  };
}
