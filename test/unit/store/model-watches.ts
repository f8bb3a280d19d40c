import { setTimeout as sleep } from "node:timers/promises";
import type { Commit } from "../../../src/store/contract.ts";
import { show, showDifference } from "./model-show.ts";
import { apply, areSame, inOrder, isTrueOf, type State } from "./model-state.ts";

/** Watches of a model run: what they were told is held against what happened. */
export interface ModelWatches {
  readonly size: number;
  /** The one that has watched longest. */
  readonly oldest: number | undefined;
  begin(watch: number, from: State): void;
  /** From now on it hears of a commit before whoever asked for it does. */
  begun(watch: number): void;
  end(watch: number): void;
  endAll(): void;
  heard(watch: number, commit: Commit): void;
  /** The store has forgotten what it would have told next. */
  lost(watch: number): void;
  /** A commit resolved. */
  acknowledged(revision: number): void;
  /** Once it is known what happened: nothing false was told, and nothing out of order or too late. */
  check(): void;
  /** Waits until a watch has been told of all that happened. */
  requireTold(watch: number): Promise<void>;
  /** After a crash that they outlived: those that lost the history are over, the others are told of the rest. */
  outlive(): Promise<void>;
}

interface ModelWatchesOptions {
  /** What happened, as far as it is known. */
  readonly history: ReadonlyMap<number, Commit>;
  readonly now: () => State;
  /** What came after it was committed by the process that watches. */
  readonly ownSince: () => number;
  readonly insist: (holds: boolean, sentence: () => string) => asserts holds;
}

interface Watching {
  /** What it was told, on top of what it began with. */
  state: State;
  readonly heard: Commit[];
  /** Of what it was told last. */
  reached: number;
  isBegun: boolean;
  isLost: boolean;
}

const toldWithinMs = 10_000;

export function createModelWatches(options: ModelWatchesOptions): ModelWatches {
  const { history, now, ownSince } = options;
  const insist: ModelWatchesOptions["insist"] = options.insist;
  const watches = new Map<number, Watching>();
  /** Commits that were acknowledged before a watch was told of them. */
  const early = new Set<number>();

  /** All of what this process did, and nothing false of what others did. */
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
      // One that has ended meanwhile.
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
