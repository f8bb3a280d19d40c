import { setTimeout as sleep } from "node:timers/promises";
import type { Commit } from "../../../src/store/contract.ts";
import { below, seeded } from "../../support/runner/seeded.ts";
import { startHost } from "./model-host.ts";
import type { Answer, Ask } from "./model-protocol.ts";
import { show, showDifference } from "./model-show.ts";
import { apply, areSame, type Held, heldAgainst, inOrder, nothing, type State, slice } from "./model-state.ts";
import { createModelWatches } from "./model-watches.ts";
import { beyond, type CommitAsk, createModelWorkload, witnessOf } from "./model-workload.ts";

/** The location of a store, and the way it fails. */
export interface ModelGround {
  /** In the form of LATCHKEY_STORE. The store is empty. */
  readonly store: string;
  /** The store's server or disk fails at once and without notice, and is back when this resolves. */
  readonly collapse?: () => Promise<void>;
}

export interface ModelOptions {
  readonly fixture: ModelGround;
  readonly seed: number;
  readonly steps: number;
}

export interface ModelReport {
  /** The number of requests. */
  readonly steps: number;
  readonly commits: number;
  readonly refused: number;
  readonly crashes: number;
  /** Commits with an unknown outcome after a crash, and how many of them had happened. */
  readonly uncertain: number;
  readonly happened: number;
  readonly watches: number;
  /** Watches that started at an earlier revision. */
  readonly resumed: number;
}

/** The largest number of concurrent requests. */
const maxBatch = 24;
const stepsBetweenCrashes = 1_500;
const maxWatches = 5;
const maxSnapshots = 3;
const maxRemembered = 8;
const backWithinMs = 10_000;

/** A commit and its outcome; undefined if unknown. */
interface Tried {
  readonly ask: CommitAsk;
  readonly answer: Answer | undefined;
}

/**
 * Sends random requests to a store, many at once, in a process that is killed now and then, and compares every answer
 * with a plain map. The store itself shows the outcome of commits that a crash left uncertain: each of them puts a key
 * of its own.
 */
export async function modelRun({ fixture, seed, steps }: ModelOptions): Promise<ModelReport> {
  const random = seeded(seed);
  const pick = (n: number) => below(random, n);
  const workload = createModelWorkload(random);
  const report = { steps: 0, commits: 0, refused: 0, crashes: 0, uncertain: 0, happened: 0, watches: 0, resumed: 0 };
  let state = nothing;
  const history = new Map<number, Commit>();
  /** The first revision that the current process committed. */
  let ownSince = 0;
  const watches = createModelWatches({ history, now: () => state, ownSince: () => ownSince, insist });
  const snapshots = new Map<number, State>();
  /** States at which watches may start. */
  let remembered: State[] = [nothing];
  let names = 0;
  const listener = { onAnswer, onCommit: watches.heard, onLost: watches.lost };
  let host = startHost(listener);
  /** Started ahead: a crash costs no start. */
  let spare = startHost(listener);

  function insist(holds: boolean, sentence: () => string): asserts holds {
    if (!holds) throw new Error(`step ${report.steps} of seed ${seed}, revision ${state.revision}: ${sentence()}`);
  }

  function onAnswer(ask: Ask, answer: Answer): void {
    if (ask.ask === "watch" && answer.is === "done") watches.begun(ask.watch);
    if (ask.ask === "commit" && answer.is === "revision") watches.acknowledged(answer.revision);
  }

  /** Applies what the store did. Returns the states in between, the first one being the state before. */
  function replay(asks: readonly Ask[], answers: readonly (Answer | undefined)[]): readonly State[] {
    const done = asks.flatMap((ask, i) => {
      const answer = answers[i];
      return ask.ask === "commit" && answer?.is === "revision" ? [{ ask, revision: answer.revision }] : [];
    });
    const states = [state];
    for (const { ask, revision } of done.sort((a, b) => a.revision - b.revision)) {
      const held = heldAgainst(state, ask);
      insist(revision === state.revision + 1, () => `a commit has revision ${revision}`);
      insist(held.length === 0, () => `a commit was taken, though ${show(held)}: ${show(ask)}`);
      history.set(revision, { revision, changes: ask.changes });
      state = apply(state, ask.changes);
      states.push(state);
      report.commits += 1;
    }
    return states;
  }

  /** Whether an answer was true in one of the states. */
  function judge(ask: Ask, answer: Answer | undefined, states: readonly State[]): void {
    const say = () => `${show(ask)} was answered ${show(answer)}`;
    insist(answer !== undefined && answer.is !== "unavailable", say);
    const insistOnce = (holds: (one: State) => boolean) => insist(states.some(holds), say);
    const insistEntries = (wanted: (one: State) => Parameters<typeof areSame>[0]) => {
      insist(answer.is === "entries", say);
      insistOnce((one) => areSame(answer.entries, wanted(one)));
    };
    switch (ask.ask) {
      case "commit": {
        if (answer.is === "revision") return;
        insist(answer.is === "stale", say);
        report.refused += 1;
        const { key: named, current: is } = answer;
        const isWhy = ({ key, current }: Held) => key === named && (current === undefined || current === is);
        insistOnce((one) => heldAgainst(one, ask).some(isWhy));
        return;
      }
      case "get":
        insistEntries(({ entries }) => [entries.get(ask.key)]);
        return;
      case "getMany":
        insistEntries(({ entries }) => ask.keys.map((key) => entries.get(key)));
        return;
      case "list":
        insistEntries((one) => slice(one, ask));
        return;
      case "scrub":
        insistEntries(inOrder);
        return;
      case "snapshot": {
        insist(answer.is === "revision", say);
        const held = states.find(({ revision }) => revision === answer.revision);
        insist(held !== undefined, say);
        snapshots.set(ask.snapshot, held);
        return;
      }
      case "readSnapshot": {
        const held = inOrder(snapshots.get(ask.snapshot) ?? nothing);
        snapshots.delete(ask.snapshot);
        insist(answer.is === "entries", say);
        insist(areSame(answer.entries, held), () => `of a snapshot: ${showDifference(answer.entries, held)}`);
        return;
      }
      case "watch":
        report.watches += 1;
        if (answer.is === "done") {
          insist(ask.from <= state.revision, say);
          if (ask.from < state.revision) report.resumed += 1;
          return;
        }
        // Commits of others, also of an earlier process, may be forgotten; future revisions are unknown.
        insist(answer.is === "historyLost" && (ask.from < ownSince || ask.from > state.revision), say);
        watches.end(ask.watch);
        return;
      case "unwatch":
        watches.end(ask.watch);
        return;
      case "open":
        return;
    }
  }

  async function batch(asks: readonly Ask[]): Promise<void> {
    report.steps += asks.length;
    const answers = await host.ask(asks);
    const states = replay(asks, answers);
    for (const [i, ask] of asks.entries()) judge(ask, answers[i], states);
    watches.check();
  }

  function watchAfter(from: State): Ask {
    names += 1;
    watches.begin(names, from);
    return { ask: "watch", watch: names, from: from.revision };
  }

  function nextAsk(): Ask {
    if (snapshots.size > 0 && pick(40) === 0) return { ask: "readSnapshot", snapshot: [...snapshots.keys()][0] ?? 0 };
    if (snapshots.size < maxSnapshots && pick(60) === 0) {
      names += 1;
      return { ask: "snapshot", snapshot: names };
    }
    if (watches.size < maxWatches && pick(150) === 0) return watchAfter(remembered[pick(remembered.length)] ?? state);
    return pick(2) === 0 ? workload.commit(state) : workload.read();
  }

  async function ordinary(): Promise<void> {
    const asks = Array.from({ length: 1 + pick(maxBatch) }, nextAsk);
    // A snapshot is read once.
    await batch([...new Map(asks.map((ask) => ["snapshot" in ask ? ask.snapshot : ask, ask])).values()]);
    if (pick(50) === 0) await batch([watchAfter(pick(4) === 0 ? { ...state, revision: state.revision + 1 } : state)]);
    if (watches.oldest !== undefined && (watches.size > maxWatches || pick(50) === 0)) {
      await watches.requireTold(watches.oldest);
      await batch([{ ask: "unwatch", watch: watches.oldest }]);
    }
    if (pick(10) === 0) remembered = [...remembered, state].slice(-maxRemembered);
  }

  async function crash(): Promise<void> {
    report.crashes += 1;
    const asks = Array.from({ length: 1 + pick(maxBatch) }, () => workload.witnessed(workload.commit(state)));
    report.steps += asks.length;
    const answering = host.ask(asks);
    await sleep(random() * 4);
    const collapse = pick(2) === 0 ? fixture.collapse : undefined;
    const dies = collapse === undefined || pick(2) === 0;
    if (dies) await host.kill();
    await collapse?.();
    // The ended process held them.
    snapshots.clear();
    const answers = await answering;
    const tried = asks.map((ask, i) => ({ ask, answer: answers[i] }));
    if (dies) await begin();
    else tried.push(...(await comeBack()));
    await settle(tried);
    ownSince = state.revision;
    await watches.outlive();
    await batch([{ ask: "scrub" }]);
    await batch([workload.sweep(tried.map(({ ask }) => ask))]);
  }

  /** A new process. */
  async function begin(): Promise<void> {
    watches.endAll();
    host = spare;
    spare = startHost(listener);
    const [opened] = await host.ask([{ ask: "open", store: fixture.store }]);
    insist(opened?.is === "revision", () => `it could not be opened: ${show(opened)}`);
  }

  /** Waits until the same process has reconnected its store. Returns the commits tried until then. */
  async function comeBack(): Promise<readonly Tried[]> {
    const until = performance.now() + backWithinMs;
    const tried: Tried[] = [];
    for (;;) {
      const ask = workload.witnessed({ ask: "commit", changes: [], conditions: [] });
      const [answer] = await host.ask([ask]);
      tried.push({ ask, answer });
      if (answer?.is === "revision") return tried;
      insist(performance.now() < until, () => `it does not come back: ${show(answer)}`);
      await sleep(50);
    }
  }

  /** Finds the outcome of unfinished commits, each all or nothing, and requires all acknowledged ones. */
  async function settle(tried: readonly Tried[]): Promise<void> {
    const [found] = await host.ask([{ ask: "list", from: "\x01", to: beyond, limit: 1_000_000, reverse: false }]);
    insist(found?.is === "entries", () => `after a crash: ${show(found)}`);
    const revisions = new Map(found.entries.map((entry) => [entry?.key, entry?.revision]));
    const answers = tried.map(({ ask, answer }): Answer => {
      const revision = revisions.get(witnessOf(ask));
      const said = answer?.is === "revision" ? answer.revision : undefined;
      insist(said === undefined || revision === said, () => `acknowledged as ${said} and lost: ${show(ask)}`);
      insist(answer?.is !== "stale" || revision === undefined, () => `refused, and there: ${show(ask)}`);
      if (answer?.is === "stale") return answer;
      if (said === undefined) report.uncertain += 1;
      if (said === undefined && revision !== undefined) report.happened += 1;
      return revision === undefined ? { is: "unavailable", why: "it did not happen" } : { is: "revision", revision };
    });
    const asks = tried.map(({ ask }) => ask);
    const states = replay(asks, answers);
    for (const [i, ask] of asks.entries()) if (answers[i]?.is === "stale") judge(ask, answers[i], states);
    const wanted = inOrder(state);
    insist(areSame(found.entries, wanted), () => `after a crash: ${showDifference(found.entries, wanted)}`);
  }

  try {
    await host.ask([{ ask: "open", store: fixture.store }]);
    while (report.steps < steps) {
      await ordinary();
      if (pick(Math.ceil(stepsBetweenCrashes / (maxBatch / 2))) === 0) await crash();
    }
    return report;
  } finally {
    await Promise.all([host.kill(), spare.kill()]);
  }
}
