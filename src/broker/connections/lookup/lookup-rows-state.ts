import type { LookupRows } from "../../../gen/latchkey/stored/v1/stored_pb.ts";

/** What the store says about rows of lookups, kept in step with it. */
export interface LookupRowsState {
  /** Every commit of a connection writes its rows as well. */
  readonly isWritten: boolean;
  /** All connections have their rows. */
  readonly isComplete: boolean;
  /** Memory of the index in the process that last found it too large. */
  readonly bytes: number;
  /** Undefined: no process ever found its index too large. */
  set(rows: LookupRows | undefined): void;
  /** Calls the listener after each change. */
  listen(listener: () => void): void;
}

export function createLookupRowsState(): LookupRowsState {
  let state: LookupRows | undefined;
  const listeners: (() => void)[] = [];
  return {
    get isWritten() {
      return state !== undefined;
    },
    get isComplete() {
      return state?.walksLeft === 0;
    },
    get bytes() {
      return Number(state?.bytes ?? 0n);
    },
    set(rows) {
      state = rows;
      for (const listener of listeners) listener();
    },
    listen: (listener) => void listeners.push(listener),
  };
}
