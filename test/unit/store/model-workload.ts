import type { Change, Condition } from "../../../src/store/contract.ts";
import { below } from "../../support/runner/seeded.ts";
import type { Ask } from "./model-protocol.ts";
import type { State } from "./model-state.ts";

export type CommitAsk = Extract<Ask, { ask: "commit" }>;

/** Some of them sort differently in UTF-16, and a NUL ends strings elsewhere. */
const odd = ["a", "a\0", "a\0b", "ab", "\x01", "é", "\u{ffee}", "\u{1f511}", "\u{10ffff}", "k".repeat(600)];
const keys = [...odd, ...Array.from({ length: 30 }, (_, i) => `connection\0dev\0${i}`)];
/** Mostly empty, so that conditions on ranges hold as often as not. */
const sparse = Array.from({ length: 6 }, (_, i) => `sparse/${i}`);
const beginning = "\x01";
/** After every key. */
export const beyond = "\u{10ffff}\u{10ffff}";

const witness = "witness/";
/** A key that no other commit puts: while it is there, its commit happened. */
export const witnessOf = ({ changes }: CommitAsk): string =>
  changes.find(({ key }) => key.startsWith(witness))?.key ?? "";

/** Generates random requests to a store. */
export function createModelWorkload(random: () => number) {
  const pick = (n: number) => below(random, n);
  const oneOf = <T>(many: readonly [T, ...T[]] | readonly T[]): T => many[pick(many.length)] as T;
  const key = () => (pick(12) === 0 ? oneOf(sparse) : oneOf(keys));
  let count = 0;

  function value(): Uint8Array {
    count += 1;
    const length = pick(50) === 0 ? 20_000 : pick(60);
    // Different from all earlier ones, with bytes of every kind.
    return pick(30) === 0 ? new Uint8Array() : Uint8Array.from(Buffer.concat([Buffer.from(`${count}:`), fill(length)]));
  }
  const fill = (length: number) => Buffer.alloc(length, Uint8Array.of(count & 255, 0, 255, count >> 8));

  /** Mostly the current revision of a key; sometimes an old one, or absence. */
  function expectation(state: State, of: string): number {
    const current = state.entries.get(of)?.revision ?? 0;
    return pick(6) === 0 ? oneOf([0, current + 1, Math.max(0, current - 1)]) : current;
  }

  function change(state: State): Change {
    const of = key();
    const isBound = pick(3) === 0;
    return {
      key: of,
      value: pick(4) === 0 || (of.startsWith("sparse/") && pick(2) === 0) ? undefined : value(),
      ...(isBound ? { expect: expectation(state, of) } : {}),
      ...(pick(5) === 0 ? { secret: true as const } : {}),
    };
  }

  function conditions(state: State): Condition[] {
    const made: Condition[] = [];
    const of = key();
    if (pick(6) === 0) made.push({ key: of, expect: expectation(state, of) });
    if (pick(8) === 0) made.push({ empty: pick(4) === 0 ? range() : { from: "sparse/", to: "sparse0" } });
    return made;
  }

  function range(): { readonly from: string; readonly to: string } {
    return { from: pick(4) === 0 ? beginning : key(), to: pick(4) === 0 ? beyond : key() };
  }

  return {
    commit(state: State): CommitAsk {
      const changes = Array.from({ length: pick(3) === 0 ? 1 + pick(6) : 1 }, () => change(state));
      return {
        ask: "commit",
        changes: [...new Map(changes.map((one) => [one.key, one])).values()],
        conditions: conditions(state),
      };
    },
    witnessed({ changes, conditions: same }: CommitAsk): CommitAsk {
      count += 1;
      const key = `${witness}${count}`;
      return { ask: "commit", changes: [...changes, { key, value: new Uint8Array() }], conditions: same };
    },
    /** Removes the witness keys, which are no longer needed. */
    sweep: (asks: readonly CommitAsk[]): CommitAsk => ({
      ask: "commit",
      changes: asks.map((ask) => ({ key: witnessOf(ask), value: undefined })),
      conditions: [],
    }),
    read(): Ask {
      if (pick(3) === 0) return { ask: "get", key: key() };
      if (pick(3) === 0) return { ask: "getMany", keys: Array.from({ length: pick(12) }, key) };
      return { ask: "list", ...range(), limit: oneOf([1, 2, 5, 100]), reverse: pick(2) === 0 };
    },
  };
}
