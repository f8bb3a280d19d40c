import { type PageTokens, pageTokens } from "../stored/page-token.ts";

/** Identifies the records of a cursor; cursors of other records are refused. */
export interface RecordsNamed {
  readonly environment: string;
  readonly integration: string;
  readonly connectionId: string;
  readonly model: string;
  readonly variant: string;
}

/**
 * A reader's position: the sequence number of the last change it has read. A connection recreated under the same ID
 * numbers its changes from the beginning. A cursor of the former connection then reads from the beginning, because no
 * reader has seen those changes.
 */
export interface RecordCursors {
  write(sequence: bigint): string;
  /** Returns 0 for the beginning. Throws if the cursor is not valid for these records. */
  read(cursor: string): bigint;
}

export function recordCursors(of: RecordsNamed, connectionNumber: number): RecordCursors {
  const { environment, integration, connectionId, model, variant } = of;
  const tokens: PageTokens = pageTokens(["records", environment, integration, connectionId, model, variant]);
  return {
    write: (sequence) => tokens.write(`${connectionNumber}.${sequence}`),
    read(cursor) {
      const [, number, sequence] = /^(\d+)\.(\d+)$/.exec(tokens.read(cursor) ?? "") ?? [];
      return number === String(connectionNumber) ? BigInt(sequence ?? 0) : 0n;
    },
  };
}
