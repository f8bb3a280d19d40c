import type { Entry } from "../../src/store/contract.ts";
import { readValue, type Said, type Work } from "./workload.ts";

/**
 * Compares what writers were told with what a store holds. An acknowledged commit must be there whole, a refused one
 * must be absent, and any other is there whole or not at all.
 */
export interface Account {
  note(line: Said): void;
  /** Returns the mistakes, in sentences. The found state is where the store's next life starts. */
  audit(found: Found): readonly string[];
  /** The number of acknowledged commits. */
  acknowledged(): number;
}

export interface Found {
  readonly entries: readonly Entry[];
  readonly revision: number;
}

interface Tried {
  readonly work: Work;
  outcome: "open" | "stale" | number;
}

/** The commit that set a key, and its revision. */
interface Held {
  readonly id: string;
  readonly revision: number;
}

/** For a store that is empty, or has these entries. */
export function createAccount(before: Found = { entries: [], revision: 0 }): Account {
  let base = heldIn(before);
  let baseRevision = before.revision;
  let tried = new Map<string, Tried>();
  let acknowledged = 0;

  /** Commits by revision: the acknowledged ones, and those that the found entries prove. */
  function timeline({ entries, revision: newest }: Found, complain: (sentence: string) => void): Map<number, Work> {
    const byRevision = new Map<number, Work>();
    const add = (revision: number, work: Work) => {
      const other = byRevision.get(revision);
      if (other !== undefined && other !== work) complain(`${other.id} and ${work.id} have both revision ${revision}`);
      if (revision <= baseRevision)
        complain(`${work.id} has revision ${revision}, and ${baseRevision} was there before`);
      byRevision.set(revision, work);
    };
    for (const { outcome, work } of tried.values()) {
      if (typeof outcome !== "number") continue;
      add(outcome, work);
      if (outcome > newest) complain(`${work.id} was acknowledged as ${outcome}; the store is at ${newest}`);
    }
    for (const { key, value, revision } of entries) {
      const read = readValue(value);
      if (read === undefined) {
        complain(`${key} holds a value that is not whole`);
        continue;
      }
      const { id, size } = read;
      const before = base.get(key);
      if (before?.id === id && before.revision === revision) continue;
      const one = tried.get(id);
      if (one === undefined) {
        complain(`${key} holds a value of ${id}, which was not tried since`);
        continue;
      }
      if (!one.work.changes.some((change) => change.key === key && change.size === size)) {
        complain(`${key} holds a value that ${id} did not write`);
      }
      if (one.outcome === "stale") complain(`${id} was refused, and ${key} holds its value`);
      else if (one.outcome === "open" && byRevision.get(revision) !== one.work) {
        one.outcome = revision;
        add(revision, one.work);
      } else if (one.outcome !== revision) {
        complain(`${key} holds the value of ${id} at revision ${revision} instead of ${String(one.outcome)}`);
      }
    }
    return byRevision;
  }

  return {
    note(line) {
      if (line.said === "try") tried.set(line.work.id, { work: line.work, outcome: "open" });
      const one = "id" in line ? tried.get(line.id) : undefined;
      if (one === undefined) return;
      if (line.said === "done") {
        one.outcome = line.revision;
        acknowledged += 1;
      }
      if (line.said === "stale") one.outcome = "stale";
    },
    acknowledged: () => acknowledged,
    audit(found) {
      const complaints: string[] = [];
      const complain = (sentence: string) => void complaints.push(sentence);
      const byRevision = timeline(found, complain);
      // The others are single puts that were overwritten or never happened: nothing tells which.
      const hidden = [...tried.values()].filter(({ outcome }) => outcome === "open").map(({ work }) => work);
      const hiddenKeys = new Set(hidden.flatMap(({ changes }) => changes.map(({ key }) => key)));
      const unexplained = found.revision - baseRevision - byRevision.size;
      if (unexplained < 0 || unexplained > hidden.length) {
        complain(
          `the store counts ${found.revision - baseRevision} commits; ${byRevision.size} to ${byRevision.size + hidden.length} can be`,
        );
      }

      const model = new Map(base);
      for (const [revision, work] of [...byRevision].sort(([a], [b]) => a - b)) {
        for (const sentence of brokenBy(work, model, hiddenKeys)) complain(`${work.id} at ${revision}: ${sentence}`);
        for (const { key, size } of work.changes) {
          if (size === undefined) model.delete(key);
          else model.set(key, { id: work.id, revision });
        }
      }
      const held = heldIn(found);
      for (const key of new Set([...model.keys(), ...held.keys()])) {
        const [wanted, is] = [model.get(key), held.get(key)];
        if (wanted?.id === is?.id && wanted?.revision === is?.revision) continue;
        complain(`${key} should be ${say(wanted)} and is ${say(is)}`);
      }
      base = held;
      baseRevision = found.revision;
      tried = new Map();
      return complaints;
    },
  };
}

const heldIn = ({ entries }: Found): Map<string, Held> =>
  new Map(entries.map(({ key, value, revision }) => [key, { id: readValue(value)?.id ?? "?", revision }]));

/** Expectations of a commit that should have made it fail. */
function* brokenBy(work: Work, model: ReadonlyMap<string, Held>, hiddenKeys: ReadonlySet<string>): Iterable<string> {
  const expected = work.changes.flatMap(({ key, expect }) => (expect === undefined ? [] : [{ key, expect }]));
  const conditions = work.conditions.flatMap((condition) => ("empty" in condition ? [] : [condition]));
  for (const { key, expect } of [...expected, ...conditions]) {
    const current = model.get(key)?.revision ?? 0;
    if (current !== expect && !hiddenKeys.has(key)) yield `it expected ${key} at ${expect}, which was at ${current}`;
  }
  for (const condition of work.conditions) {
    if (!("empty" in condition)) continue;
    const { from, to } = condition.empty;
    const there = [...model.keys()].find((key) => key >= from && key < to);
    if (there !== undefined && !hiddenKeys.has(there)) yield `it expected nothing where ${there} was`;
  }
}

const say = (held: Held | undefined): string =>
  held === undefined ? "gone" : `that of ${held.id} at ${held.revision}`;
