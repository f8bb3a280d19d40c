import { existsSync, readFileSync } from "node:fs";
import { loadAverage } from "../proxy-process.ts";
import { builtDist } from "../sidecar-process.ts";
import {
  type BenchFigure,
  comparedRounds,
  processor,
  ratios,
  readResults,
  shownNumber,
  writeResults,
} from "./results.ts";
import { measureShort } from "./short-runs.ts";
import { median, type Verdict, verdictOf } from "./verdict.ts";

interface ScoreOptions {
  readonly release: string | undefined;
  readonly only: readonly string[];
  /** Another build: its `latchkey.js`. */
  readonly beside: string | undefined;
}

const say = (line: string) => void process.stdout.write(`${line}\n`);

/** Runs the short forms of the benches and keeps their figures under the name of a release. */
export async function all({ release, only }: ScoreOptions): Promise<void> {
  needBuild();
  const { version } = JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8"));
  const before = loadAverage();
  const { figures, missing } = await measureShort({ only, beside: undefined });
  const page = writeResults({
    release: release ?? version,
    date: new Date().toISOString().slice(0, 10),
    node: process.versions.node,
    processor: processor(),
    load: [before, loadAverage()],
    figures,
    missing,
  });
  say(`\n${readFileSync(page, "utf8")}\n${page}`);
  if (missing.length > 0) process.exitCode = 1;
}

/** Measures again and compares with a release. The exit code is 1 if something is more than 10 % worse. */
export async function compare({ release, only, beside }: ScoreOptions): Promise<void> {
  needBuild();
  if (release === undefined) throw new Error("name the release: npm run bench -- compare 0.1.0");
  const stored = readResults(release);
  if (stored === undefined && beside === undefined) {
    throw new Error(`test/bench/results has no ${release}.json; name a build of it with --beside dist/latchkey.js`);
  }
  const first = await measureShort({ only, beside });
  const kept = stored?.figures ?? [];
  const judged = first.figures.map((figure) => judge(figure, kept));
  const doubtful = new Set(judged.filter(({ verdict }) => isDoubtful(verdict)).map(({ figure }) => figure.bench));
  if (doubtful.size > 0) say(`\nmeasured again, because of doubt: ${[...doubtful].join(", ")}`);
  const second = doubtful.size === 0 ? [] : (await measureShort({ only: [...doubtful], beside })).figures;
  const final = first.figures.map((figure) => judge(pooled(figure, second), kept));
  say(`\n${tableOf(final)}`);
  const names = new Set(final.map(({ figure }) => figure.name));
  for (const { name, bench } of kept) {
    if (!names.has(name) && (only.length === 0 || only.includes(bench))) say(`not measured now: ${name}`);
  }
  for (const { bench, reason } of first.missing) say(`not measured: ${bench}: ${reason}`);
  const worse = final.filter(({ verdict }) => verdict?.kind === "worse");
  const unclear = final.filter(({ verdict }) => verdict?.kind === "unclear");
  say(`\n${worse.length} more than 10 % worse, ${unclear.length} without a verdict, of ${final.length} figures`);
  if (worse.length > 0) process.exitCode = 1;
}

function needBuild(): void {
  if (!existsSync(builtDist)) throw new Error("there is no build to measure: run npm run build first");
}

export interface JudgedFigure {
  readonly figure: BenchFigure;
  /** What it was compared with. */
  readonly against: string;
  readonly before: number;
  readonly now: number;
  /** Undefined for a figure that the release does not have. */
  readonly verdict: Verdict | undefined;
}

/** Prefers a build measured in the same rounds; otherwise the ratios to a peer that the release had. */
export function judge(figure: BenchFigure, kept: readonly BenchFigure[]): JudgedFigure {
  const { better } = figure;
  const build = figure.peers["beside"];
  if (build !== undefined) {
    const now = ratios(figure.own, build);
    const verdict = verdictOf({ better, before: now.map(() => 1), now });
    return { figure, against: "its build", before: median(build), now: median(figure.own), verdict };
  }
  const current = comparedRounds(figure);
  const old = kept.find(({ name }) => name === figure.name);
  const earlier = old === undefined ? undefined : comparedRounds(old);
  if (earlier === undefined || earlier.peer !== current.peer) {
    return { figure, against: "–", before: Number.NaN, now: median(current.rounds), verdict: undefined };
  }
  const verdict = verdictOf({ better, before: earlier.rounds, now: current.rounds });
  const against = current.peer === undefined ? "its value" : `its ratio to ${current.peer}`;
  return { figure, against, before: median(earlier.rounds), now: median(current.rounds), verdict };
}

const isDoubtful = (verdict: Verdict | undefined): boolean => verdict?.kind === "worse" || verdict?.kind === "unclear";

/** The rounds of both measurements. */
export function pooled(figure: BenchFigure, again: readonly BenchFigure[]): BenchFigure {
  const other = again.find(({ name }) => name === figure.name);
  if (other === undefined) return figure;
  const names = Object.keys(figure.peers).filter((name) => other.peers[name] !== undefined);
  const peers = names.map((name) => [name, [...(figure.peers[name] ?? []), ...(other.peers[name] ?? [])]] as const);
  return { ...figure, own: [...figure.own, ...other.own], peers: Object.fromEntries(peers) };
}

function tableOf(all: readonly JudgedFigure[]): string {
  const rows = all.map(({ figure, against, before, now, verdict }) => {
    const [from, to] = verdict?.interval ?? [];
    const change = verdict === undefined ? "–" : percent(verdict.change);
    const interval = from === undefined || to === undefined ? "–" : `${percent(from)} to ${percent(to)}`;
    const words = verdict === undefined ? "new: the release has no such figure" : `${verdict.kind}: ${verdict.reason}`;
    return [figure.name, against, shownNumber(before), shownNumber(now), change, interval, words];
  });
  const head = ["What", "Against", "Before", "Now", "Change (+ is better)", "With 95 %", "Verdict"];
  return [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

const percent = (ratio: number): string =>
  Number.isFinite(ratio) ? `${ratio >= 1 ? "+" : "−"}${Math.abs((ratio - 1) * 100).toFixed(0)} %` : "–";
