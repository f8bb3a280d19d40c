import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Figure } from "./figure.ts";
import type { BenchFigure, MissingBench } from "./results.ts";

interface ShortRun {
  readonly bench: string;
  readonly args: readonly string[];
  /** Measures another build in the same rounds. */
  readonly takesBuild: boolean;
}

/** The short form of each bench: twelve minutes together on two cores. */
const shortRuns: readonly ShortRun[] = [
  {
    bench: "proxy",
    args: ["--only", "requests,tls", "--cells", "small-32,small-256", "--peers", "nginx"],
    takesBuild: true,
  },
  { bench: "tails", args: ["--only", "32,256,tls32,tls256", "--rounds", "5"], takesBuild: true },
  { bench: "http2", args: ["--count", "20000", "--rounds", "5"], takesBuild: false },
  { bench: "forward-proxy", args: ["--only", "requests,latency", "--seconds", "2"], takesBuild: false },
  { bench: "mcp", args: ["--count", "200", "--rounds", "7"], takesBuild: false },
  { bench: "webhooks", args: ["--only", "receive,steady", "--rounds", "3"], takesBuild: true },
  { bench: "policies", args: ["--count", "50000"], takesBuild: false },
  { bench: "import", args: ["--count", "15000", "--rounds", "4"], takesBuild: true },
  { bench: "start", args: ["--count", "9"], takesBuild: true },
  { bench: "idle", args: ["--only", "level", "--seconds", "24"], takesBuild: true },
];
/** More than any of them takes on a busy machine. */
const mostMs = 600_000;
const command = fileURLToPath(new URL("../run.ts", import.meta.url));

export const shortNames: readonly string[] = shortRuns.map(({ bench }) => bench);

interface Measurement {
  readonly figures: BenchFigure[];
  readonly missing: MissingBench[];
}

interface Choice {
  /** Empty: all. */
  readonly only: readonly string[];
  /** Another build to measure in the same rounds where a bench can do that. */
  readonly beside: string | undefined;
}

/** Runs the benches one after another, each in its own process. One that fails is reported and left out. */
export async function measureShort({ only, beside }: Choice): Promise<Measurement> {
  const unknown = only.filter((name) => !shortNames.includes(name));
  if (unknown.length > 0) throw new Error(`no short form of ${unknown.join()}: there are ${shortNames.join()}`);
  const measurement: Measurement = { figures: [], missing: [] };
  for (const { bench, args, takesBuild } of shortRuns) {
    if (only.length > 0 && !only.includes(bench)) continue;
    const build = takesBuild && beside !== undefined ? ["--beside", beside] : [];
    process.stdout.write(`\n== ${bench} ${[...args, ...build].join(" ")}\n`);
    const { figures, failure } = await runBench([bench, ...args, ...build]);
    measurement.figures.push(...figures.map((figure) => ({ bench, ...figure })));
    if (failure !== undefined) measurement.missing.push({ bench, reason: failure });
  }
  return measurement;
}

async function runBench(args: readonly string[]): Promise<{ readonly figures: Figure[]; readonly failure?: string }> {
  const folder = mkdtempSync(join(tmpdir(), "latchkey-figures-"));
  const file = join(folder, "figures");
  try {
    const child = spawn(process.execPath, [command, ...args], {
      env: { ...process.env, LATCHKEY_BENCH_FIGURES: file },
      stdio: ["ignore", "inherit", "pipe"],
      timeout: mostMs,
    });
    let said = "";
    child.stderr.on("data", (text: Buffer) => {
      process.stderr.write(text);
      said = `${said}${text}`.slice(-4_000);
    });
    const code = await new Promise((resolve) => child.once("close", resolve));
    const figures = linesOf(file).map((line) => JSON.parse(line) as Figure);
    if (code === 0 && figures.length > 0) return { figures };
    const reason = /^\s*(?:\w*Error: )(.+)$/m.exec(said)?.[1] ?? `it ended with ${code}`;
    return { figures, failure: code === 0 ? "it recorded no figure" : reason };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function linesOf(file: string): string[] {
  try {
    return readFileSync(file, "utf8").trim().split("\n");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}
