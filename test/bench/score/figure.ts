import { appendFileSync } from "node:fs";
import type { Table } from "../proxy-table.ts";

/** One thing that a bench measured, round by round. */
export interface Figure {
  readonly name: string;
  readonly unit: string;
  readonly better: "higher" | "lower";
  readonly own: readonly number[];
  /** Measured in the same rounds: a server in the same place, fixed work, or another build under the name "beside". */
  readonly peers: Readonly<Record<string, readonly number[]>>;
}

/** Adds a figure to the file that `all` and `compare` read. Benches that are run by themselves only print. */
export function recordFigure(figure: Figure): void {
  const file = process.env["LATCHKEY_BENCH_FIGURES"];
  const peers = Object.fromEntries(Object.entries(figure.peers).filter(([, values]) => values.length > 0));
  if (file !== undefined && figure.own.length > 0) appendFileSync(file, `${JSON.stringify({ ...figure, peers })}\n`);
}

export interface RecordedColumn extends Pick<Figure, "name" | "better"> {
  readonly column: string;
  /** The names of the rows. */
  readonly own: string;
  readonly peers: Readonly<Record<string, string>>;
}

/** Records one column of a table. Its name is the unit: "p99 ms" has that of "ms". */
export function recordColumn(table: Table, { name, better, column, own, peers }: RecordedColumn): void {
  recordFigure({
    name,
    better,
    unit: column.replace(/^p\d+ /, ""),
    own: table.values(own, column),
    peers: Object.fromEntries(Object.entries(peers).map(([peer, row]) => [peer, table.values(row, column)])),
  });
}
