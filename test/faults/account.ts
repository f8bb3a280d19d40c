import type { Entry } from "../../src/store/contract.ts";
import { readValue, type Said, type Work } from "./workload.ts";

/**
 * What writers were told, held against what a store holds. Of a commit that was acknowledged everything must be
 * there; of one that was refused nothing; of any other all or nothing.
 */
export interface Account {
  note(line: Said): void;
  /** What is wrong, in sentences. Whatever it finds is where the next life of the store begins. */
  audit(found: Found): readonly string[];
  /** So many commits were acknowledged, all in all. */
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

/** Whose value a key has, and since when. */
interface Held {
  readonly id: string;
  readonly revision: number;
}

/** Of a store that is empty, or holds this. */
export function createAccount(before: Found = { entries: [], revision: 0 }): Account {
  let base = heldIn(before);
  let baseRevision = before.revision;
  let tried = new Map<string, Tried>();
  let acknowledged = 0;

  /** Commits by their revisions: those acknowledged, and those that what was found shows to have happened. */
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
      // Those left are single puts that were overwritten, or never happened: nothing tells.
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

/** What a commit expected and should have been refused for. */
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
