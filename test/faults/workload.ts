import type { Condition } from "../../src/store/contract.ts";
import { below, seeded } from "../support/runner/seeded.ts";

/** One commit of a writer. A value follows from its size and the commit's id. */
export interface Work {
  /** Unique in all lives of the store. */
  readonly id: string;
  readonly changes: readonly WorkChange[];
  readonly conditions: readonly Condition[];
}

export interface WorkChange {
  readonly key: string;
  /** Undefined: it is deleted. */
  readonly size?: number;
  readonly expect?: number;
}

/** The lines that a writer prints. */
export type Said =
  | { readonly said: "open"; readonly revision: number }
  /** Before the commit starts. */
  | { readonly said: "try"; readonly work: Work }
  /** After it resolved. */
  | { readonly said: "done"; readonly id: string; readonly revision: number }
  | { readonly said: "stale"; readonly id: string }
  /** The store could not make it durable: it may have happened all the same. */
  | { readonly said: "unavailable"; readonly id: string; readonly why: string }
  | { readonly said: "read" }
  | { readonly said: "unread"; readonly why: string }
  | { readonly said: "closed" };

/** The writer's only argument, as JSON. */
export interface WriterOptions {
  /** In the form of LATCHKEY_STORE. */
  readonly store: string;
  /** Begins the ids of its commits. */
  readonly life: string;
  readonly seed: number;
  /** The number of concurrent commits. */
  readonly callers: number;
  /** The largest value, at most 65,536 bytes. */
  readonly bytes: number;
}

/** A key of this commit only: it shows whether a commit with many changes happened. */
export const witnessOf = (id: string): string => `witness/${id}`;

const maxBytes = 65_536;
const offsets = 30_000;
const random = seeded(1);
// Random, so that compression does not shrink a table full of it.
const filler = Buffer.from(Array.from({ length: offsets + maxBytes }, () => below(random, 256)));

/** Different for every commit, and long enough to tell a part from the whole. */
export function valueFrom(id: string, size: number): Buffer {
  const from = [...id].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % offsets, 7);
  return Buffer.concat([Buffer.from(`${id}:`), filler.subarray(from, from + size)]);
}

/** The commit of a value; undefined if the value is incomplete. */
export function readValue(value: Uint8Array): { readonly id: string; readonly size: number } | undefined {
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  const id = bytes.subarray(0, Math.max(0, bytes.indexOf(":"))).toString();
  const size = bytes.length - id.length - 1;
  return id !== "" && bytes.equals(valueFrom(id, size)) ? { id, size } : undefined;
}

const dataKeys = 200;
const dataKey = (n: number): string => `data/${String(n).padStart(3, "0")}`;

/** Makes up commits: single and of many keys, puts and deletions, with conditions that mostly hold. */
export function createWorkload({ life, seed, bytes }: WriterOptions) {
  const dice = seeded(seed);
  const pick = (n: number) => below(dice, n);
  /** The revision at which this process last saw a key; wrong if another process has written since. */
  const seen = new Map<string, number>();
  let count = 0;

  function change(): WorkChange {
    const key = dataKey(pick(dataKeys));
    const size = pick(6) === 0 ? undefined : pick(bytes);
    const revision = seen.get(key);
    // An unseen key can only be expected to be absent, which is mostly wrong later on.
    const isBound = revision !== undefined && pick(3) === 0;
    return { key, ...(size === undefined ? {} : { size }), ...(isBound ? { expect: revision } : {}) };
  }

  function condition(touched: ReadonlySet<string>): Condition[] {
    const key = dataKey(pick(dataKeys));
    const revision = seen.get(key);
    if (pick(20) === 0) return [{ empty: { from: "nothing/", to: "nothing0" } }];
    if (pick(40) === 0) return [{ empty: { from: dataKey(pick(dataKeys)), to: dataKey(pick(dataKeys)) } }];
    return pick(4) === 0 && revision !== undefined && !touched.has(key) ? [{ key, expect: revision }] : [];
  }

  return {
    next(): Work {
      count += 1;
      const id = `${life}-${count}`;
      const wanted = pick(2) === 0 ? 1 : 1 + pick(8);
      const changes = [...new Map(Array.from({ length: wanted }, change).map((one) => [one.key, one])).values()];
      const needsWitness = changes.length > 1 || changes.some(({ size }) => size === undefined);
      return {
        id,
        changes: needsWitness ? [...changes, { key: witnessOf(id), size: 0 }] : changes,
        conditions: condition(new Set(changes.map(({ key }) => key))),
      };
    },
    learn({ changes }: Work, revision: number): void {
      for (const { key, size } of changes) {
        if (revision > (seen.get(key) ?? 0)) seen.set(key, size === undefined ? 0 : revision);
      }
    },
    key: () => dataKey(pick(dataKeys)),
  };
}
