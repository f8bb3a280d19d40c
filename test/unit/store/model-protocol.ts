import type { Change, Commit, Condition, Entry } from "../../../src/store/contract.ts";

/** What the model asks of the process that has the store. All of a batch is asked for at once. */
export type Ask =
  /** As LATCHKEY_STORE writes it. */
  | { readonly ask: "open"; readonly store: string }
  | { readonly ask: "commit"; readonly changes: readonly Change[]; readonly conditions: readonly Condition[] }
  | { readonly ask: "get"; readonly key: string }
  | { readonly ask: "getMany"; readonly keys: readonly string[] }
  | {
      readonly ask: "list";
      readonly from: string;
      readonly to: string;
      readonly limit: number;
      readonly reverse: boolean;
    }
  /** What it sees is told as it sees it, under this name. */
  | { readonly ask: "watch"; readonly watch: number; readonly from: number }
  | { readonly ask: "unwatch"; readonly watch: number }
  | { readonly ask: "snapshot"; readonly snapshot: number }
  /** Reads all of it, and lets go of it. */
  | { readonly ask: "readSnapshot"; readonly snapshot: number }
  | { readonly ask: "scrub" };

export type Answer =
  | { readonly is: "revision"; readonly revision: number }
  | { readonly is: "entries"; readonly entries: readonly (Entry | undefined)[] }
  | { readonly is: "stale"; readonly key: string; readonly current: number }
  | { readonly is: "historyLost"; readonly oldest: number }
  /** Whether it happened is unknown. */
  | { readonly is: "unavailable"; readonly why: string }
  | { readonly is: "done" };

export interface Batch {
  readonly asks: readonly { readonly id: number; readonly ask: Ask }[];
}

/** In the order in which things happened. */
export type Told =
  | { readonly id: number; readonly answer: Answer }
  | { readonly id: number; readonly defect: string }
  | { readonly watch: number; readonly commit: Commit }
  | { readonly watch: number; readonly lost: true };
