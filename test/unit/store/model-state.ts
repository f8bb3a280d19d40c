import { isDeepStrictEqual } from "node:util";
import type { Change, Commit, Condition, Entry } from "../../../src/store/contract.ts";

/** The expected content of a store at one revision: a plain map. */
export interface State {
  readonly revision: number;
  readonly entries: ReadonlyMap<string, Entry>;
}

export const nothing: State = { revision: 0, entries: new Map() };

export interface Wanted {
  readonly changes: readonly Change[];
  readonly conditions: readonly Condition[];
}

/** The next state. The previous one is not changed. */
export function apply({ revision: last, entries: before }: State, changes: Commit["changes"]): State {
  const revision = last + 1;
  const entries = new Map(before);
  for (const { key, value } of changes) {
    if (value === undefined) entries.delete(key);
    else entries.set(key, { key, value, revision });
  }
  return { revision, entries };
}

/** The expectations of a commit that do not hold: of a key, or that a range is empty. */
export function heldAgainst({ entries }: State, { changes, conditions }: Wanted): readonly Held[] {
  const expected = [...changes, ...conditions.filter((condition) => "key" in condition)].flatMap(({ key, expect }) => {
    const current = entries.get(key)?.revision ?? 0;
    return expect === undefined || expect === current ? [] : [{ key, current }];
  });
  const ranges = conditions.flatMap((condition) => ("empty" in condition ? [condition.empty] : []));
  const inRanges = [...entries.keys()].filter((key) => ranges.some((range) => isIn(key, range)));
  return [...expected, ...inRanges.map((key) => ({ key, current: undefined }))];
}

export interface Held {
  readonly key: string;
  /** Undefined for a key in a range, whose reported revision is not checked. */
  readonly current: number | undefined;
}

/** In the order of the keys' UTF-8 bytes. */
export function inOrder({ entries }: State): readonly Entry[] {
  return [...entries.values()].sort((a, b) => compare(a.key, b.key));
}

export interface Slice {
  readonly from: string;
  readonly to: string;
  readonly limit: number;
  readonly reverse: boolean;
}

export function slice(state: State, { from, to, limit, reverse }: Slice): readonly Entry[] {
  const found = inOrder(state).filter(({ key }) => isIn(key, { from, to }));
  return (reverse ? found.toReversed() : found).slice(0, limit);
}

/** Whether both have the same content, whatever their types of bytes. */
export const areSame = (a: readonly (Entry | undefined)[], b: readonly (Entry | undefined)[]): boolean =>
  a.length === b.length && a.every((entry, i) => isDeepStrictEqual(plain(entry), plain(b[i])));

const plain = (entry: Entry | undefined) =>
  entry && [entry.key, entry.revision, Buffer.from(entry.value).toString("latin1")];

/** Whether the reported events of a commit are what it did; with `partly`, a part of it. */
export function isTrueOf(
  told: Commit["changes"],
  { changes }: Commit,
  { partly }: { readonly partly: boolean },
): boolean {
  const did = new Map(changes.map(({ key, value }) => [key, value]));
  if (!partly && told.length !== changes.length) return false;
  return told.every(({ key, value }) => did.has(key) && sameBytes(value, did.get(key)));
}

export const sameBytes = (a: Uint8Array | undefined, b: Uint8Array | undefined): boolean =>
  a === undefined || b === undefined ? a === b : Buffer.compare(a, b) === 0;

/** UTF-16 order differs from UTF-8 order only with surrogates. */
function compare(a: string, b: string): number {
  if (surrogate.test(a) || surrogate.test(b)) return Buffer.compare(Buffer.from(a), Buffer.from(b));
  return a < b ? -1 : a > b ? 1 : 0;
}

const surrogate = /[\ud800-\udfff]/;

const isIn = (key: string, { from, to }: { readonly from: string; readonly to: string }): boolean =>
  compare(key, from) >= 0 && compare(key, to) < 0;
