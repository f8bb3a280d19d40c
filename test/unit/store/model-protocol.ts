import type { Change, Commit, Condition, Entry } from "../../../src/store/contract.ts";

/** The model's requests to the process with the store. A batch is sent at once. */
export type Ask =
  /** In the form of LATCHKEY_STORE. */
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
  /** Its events are reported as they arrive, under this number. */
  | { readonly ask: "watch"; readonly watch: number; readonly from: number }
  | { readonly ask: "unwatch"; readonly watch: number }
  | { readonly ask: "snapshot"; readonly snapshot: number }
  /** Reads the whole snapshot, and releases it. */
  | { readonly ask: "readSnapshot"; readonly snapshot: number }
  | { readonly ask: "scrub" };

export type Answer =
  | { readonly is: "revision"; readonly revision: number }
  | { readonly is: "entries"; readonly entries: readonly (Entry | undefined)[] }
  | { readonly is: "stale"; readonly key: string; readonly current: number }
  | { readonly is: "historyLost"; readonly oldest: number }
  /** It is unknown whether it happened. */
  | { readonly is: "unavailable"; readonly why: string }
  | { readonly is: "done" };

export interface Batch {
  readonly asks: readonly { readonly id: number; readonly ask: Ask }[];
}

/** In the order of events. */
export type Told =
  | { readonly id: number; readonly answer: Answer }
  | { readonly id: number; readonly defect: string }
  | { readonly watch: number; readonly commit: Commit }
  | { readonly watch: number; readonly lost: true };
