import { type PageTokens, pageTokens } from "../stored/page-token.ts";

/** Whose records: a cursor of others is refused. */
export interface RecordsNamed {
  readonly environment: string;
  readonly integration: string;
  readonly connectionId: string;
  readonly model: string;
  readonly variant: string;
}

/**
 * Where a reader of records has come to: the place of the last change that it has seen. A connection that was
 * deleted and made anew under the same id numbers its changes from the beginning again, and so a cursor of the
 * former one reads from there: what it would pass over nobody has seen.
 */
export interface RecordCursors {
  write(sequence: bigint): string;
  /** 0 for the beginning. Throws for what is no cursor of these records. */
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
