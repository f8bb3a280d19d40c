import { quantile } from "./sidecar-process.ts";

/** Measurements in rounds: medians, and medians of the ratios within a round. */
export interface Table {
  /** Adds one row of one round; undefined if there is nothing to measure. */
  note(name: string, values: readonly (number | undefined)[]): void;
  /** The values of a row in one column, round by round; none if there is no such row. */
  values(name: string, column: string): readonly number[];
  /** Formats as Markdown. The ratios compare one column. */
  text(options: { readonly peers: readonly string[]; readonly compared: string }): string;
}

export function createTable(columns: readonly string[]): Table {
  const rows = new Map<string, (readonly (number | undefined)[])[]>();
  const medianOf = (values: readonly (number | undefined)[]) => {
    const known = values.filter((one) => one !== undefined && Number.isFinite(one)) as number[];
    return known.length === 0 ? "–" : shown(median(known));
  };

  return {
    note(name, values) {
      rows.set(name, [...(rows.get(name) ?? []), values]);
    },
    values(name, column) {
      const at = columns.indexOf(column);
      return (rows.get(name) ?? []).map((values) => values[at] ?? Number.NaN);
    },
    text({ peers, compared }) {
      const at = columns.indexOf(compared);
      const there = peers.filter((peer) => rows.has(peer));
      const lines = [...rows].map(([name, rounds]) => {
        const medians = columns.map((_, i) => medianOf(rounds.map((values) => values[i])));
        const ratios = there.map((peer) =>
          medianOf(
            rounds.map((values, round) => (values[at] ?? Number.NaN) / (rows.get(peer)?.[round]?.[at] ?? Number.NaN)),
          ),
        );
        return [name, ...medians, ...ratios];
      });
      const head = ["", ...columns, ...there.map((peer) => `${compared} to ${peer}`)];
      const all = [head, head.map((_, i) => (i === 0 ? "---" : "--:")), ...lines];
      return all.map((cells) => `| ${cells.join(" | ")} |`).join("\n");
    },
  };
}

const median = (values: readonly number[]): number =>
  quantile(
    values.toSorted((a, b) => a - b),
    0.5,
  );

const shown = (value: number): string =>
  Math.abs(value) >= 100 ? String(Math.round(value)) : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2);
