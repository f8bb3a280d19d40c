import { quantile } from "../sidecar-process.ts";
import { causes, type Explained, explain } from "./causes.ts";
import type { LoggedLoad } from "./request-log.ts";
import type { Recorded } from "./turn-probe.ts";

const traced = 100;
/** Requests closer than this probably waited for the same thing. */
const apartMs = 20;

/** Prints what each of the slowest hundred requests waited for, and each of the hundred just above p99. */
export function reportTrace(
  { requests, perSecond, p50Ms, p99Ms }: Omit<LoggedLoad, "failed">,
  recorded: Recorded,
): void {
  say(`${Math.round(perSecond)} requests/s, p50 ${p50Ms.toFixed(2)} ms, p99 ${p99Ms.toFixed(2)} ms`);
  for (const kind of ["young", "old"] as const) {
    const took = sorted(recorded.collections.filter((one) => one.kind === kind).map(({ tookMs }) => tookMs));
    if (took.length === 0) continue;
    const [median, most] = [quantile(took, 0.5), took.at(-1) ?? 0];
    say(`${took.length} ${kind} collections, median ${median.toFixed(2)} ms, longest ${most.toFixed(2)} ms`);
  }
  const writes = sorted(recorded.writes.map(({ from, until }) => until - from));
  if (writes.length > 0) {
    const [median, most] = [quantile(writes, 0.5), quantile(writes, 0.99)];
    say(`${writes.length} writes of the store, median ${median.toFixed(2)} ms, p99 ${most.toFixed(2)} ms`);
  }
  const slowest = requests.toSorted((a, b) => b.tookMs - a.tookMs);
  const aboveP99 = Math.max(0, Math.floor(requests.length / 100) - traced);
  reportSome("the slowest hundred", explain(slowest.slice(0, traced), recorded));
  reportSome("the hundred just above p99", explain(slowest.slice(aboveP99, aboveP99 + traced), recorded));
}

function reportSome(which: string, explained: readonly Explained[]): void {
  const begins = explained.map(({ sentAtMs }) => sentAtMs).sort((a, b) => a - b);
  const periods = begins.filter((at, i) => at - (begins[i - 1] ?? 0) > apartMs).length;
  say(`${which} were sent in ${periods} periods, ${apartMs} ms apart at least`);
  say(`| of ${which} | requests | median ms | of that, the cause | the longest turn ran |`);
  say("| --- | --: | --: | --: | --- |");
  for (const cause of causes) {
    const of = explained.filter((one) => one.cause === cause);
    if (of.length > 0) say(lineOf(cause, of));
  }
}

function lineOf(cause: string, of: readonly Explained[]): string {
  const median = (values: readonly number[]) => quantile(sorted(values), 0.5).toFixed(2);
  const cells = [
    cause,
    of.length,
    median(of.map(({ tookMs }) => tookMs)),
    median(of.map(({ causedMs }) => causedMs)),
    of[0]?.ran.slice(0, 4).join(", ") || "–",
  ];
  return `| ${cells.join(" | ")} |`;
}

const sorted = (values: readonly number[]): number[] => values.toSorted((a, b) => a - b);
const say = (line: string) => void process.stdout.write(`${line}\n`);
