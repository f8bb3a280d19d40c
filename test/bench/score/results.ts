import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { fileURLToPath } from "node:url";
import type { Figure } from "./figure.ts";
import { median } from "./verdict.ts";

/** What one run of all short benches measured. */
export interface Results {
  readonly release: string;
  /** YYYY-MM-DD. */
  readonly date: string;
  readonly node: string;
  readonly processor: string;
  /** Load averages before and after the run: above 1 before, other programs ran too. */
  readonly load: readonly [before: string, after: string];
  readonly figures: readonly BenchFigure[];
  readonly missing: readonly MissingBench[];
}

export interface BenchFigure extends Figure {
  readonly bench: string;
}

export interface MissingBench {
  readonly bench: string;
  readonly reason: string;
}

export const processor = (): string => `${cpus().length} cores, ${cpus()[0]?.model.trim() ?? "unknown"}`;

const fileOf = (release: string, ending: "json" | "md"): string =>
  fileURLToPath(new URL(`../results/${release}.${ending}`, import.meta.url));

export function readResults(release: string): Results | undefined {
  try {
    return JSON.parse(readFileSync(fileOf(release, "json"), "utf8")) as Results;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Writes the table for readers, and the rounds that `compare` reads. Returns the path of the table. */
export function writeResults(results: Results): string {
  mkdirSync(new URL("../results", import.meta.url), { recursive: true });
  writeFileSync(fileOf(results.release, "json"), `${JSON.stringify(results, undefined, 2)}\n`);
  const page = fileOf(results.release, "md");
  writeFileSync(page, pageOf(results));
  return page;
}

/** The ratios of single rounds to the first peer but another build; the plain values if there is no peer. */
export function comparedRounds(figure: Figure): {
  readonly peer: string | undefined;
  readonly rounds: readonly number[];
} {
  const [peer, values] = Object.entries(figure.peers).find(([name]) => name !== "beside") ?? [];
  if (peer === undefined || values === undefined) return { peer: undefined, rounds: figure.own };
  return { peer, rounds: ratios(figure.own, values) };
}

export function ratios(own: readonly number[], peer: readonly number[]): number[] {
  return own.flatMap((value, round) => {
    const ratio = value / (peer[round] ?? Number.NaN);
    return Number.isFinite(ratio) ? [ratio] : [];
  });
}

export function pageOf({ release, date, node, processor, load, figures, missing }: Results): string {
  const rows = figures.map((figure) => {
    const { peer, rounds } = comparedRounds(figure);
    const peerText = peer === undefined ? "–" : `${peer}: ${shownNumber(median(figure.peers[peer] ?? []))}`;
    const ratioText = peer === undefined ? "–" : rangeOf(rounds);
    const better = figure.better === "higher" ? "more" : "less";
    return [figure.name, figure.unit, better, rangeOf(figure.own), peerText, ratioText, String(figure.own.length)];
  });
  const head = ["What", "Unit", "Better", "Latchkey", "Peer", "Ratio", "Rounds"];
  const table = [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`);
  return [
    `# Figures of ${release}`,
    "",
    `Measured on ${date} by \`npm run bench -- all --quick\` with Node ${node} on ${processor}; load average ${load[0]} before and ${load[1]} after.`,
    "",
    "Each cell is a median with the lowest and the highest round. Ratios are Latchkey to its peer in the same round. `npm run bench -- compare` reads the rounds from the JSON file of the same name.",
    "",
    ...table,
    "",
    ...missing.map(({ bench, reason }) => `- Not measured: \`${bench}\`: ${reason}`),
    ...(missing.length > 0 ? [""] : []),
  ].join("\n");
}

const rangeOf = (values: readonly number[]): string =>
  values.length === 0
    ? "–"
    : `${shownNumber(median(values))} (${shownNumber(Math.min(...values))} to ${shownNumber(Math.max(...values))})`;

export const shownNumber = (value: number): string => {
  if (!Number.isFinite(value)) return "–";
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString("en");
  return Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2);
};
