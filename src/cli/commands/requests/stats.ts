import { durationMs as millisecondsOf, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { type Command, Option } from "commander";
import {
  type GetSeriesResponse,
  GetSeriesResponseSchema,
  SeriesStep,
  type TrafficSeries,
  TrafficService,
} from "../../../gen/latchkey/v1/traffic_pb.ts";
import type { Act } from "../../session.ts";
import { formatTime } from "../../terminal/format.ts";
import { past } from "../../terminal/option-values.ts";
import { type Column, createTable } from "../../terminal/table.ts";

const steps = { "1m": SeriesStep.MINUTE, "5m": SeriesStep.FIVE_MINUTES, "1h": SeriesStep.HOUR } as const;
const hourMs = 3_600_000;

interface StatsOptions {
  readonly since?: number;
  readonly step?: keyof typeof steps;
}

interface StatsRow {
  readonly title: string;
  readonly requests: number;
  readonly providerErrors: number;
  readonly ownErrors: number;
  readonly addedP99: number;
  readonly wholeP50: number;
  readonly wholeP99: number;
}

/** Adds `requests stats`: counts and times by integration, or of one integration by time. */
export function addStats(group: Command, act: Act): void {
  group
    .command("stats")
    .summary("show counts and times by integration, of the last 24 hours of this replica")
    .argument("[integration]", "show this integration, a line for each step")
    .option("--since <time>", "an age such as 2h, or a time (default: 1h)", past)
    .addOption(new Option("--step <step>", "length of a step (default: 5m)").choices(Object.keys(steps)))
    .action(
      act(async ({ client, output, environment }, integration: string | undefined, given: StatsOptions) => {
        const since = timestampFromMs(given.since ?? Date.now() - hourMs);
        const step = steps[given.step ?? "5m"];
        const request = { environment, integration: integration ?? "", since, step, maxSeries: 101 };
        const found = await client(TrafficService).getSeries(request);
        if (output.json) return output.one(GetSeriesResponseSchema, found);
        const rows = integration === undefined ? bySeries(found) : byTime(found);
        if (rows.length === 0) return output.note("no requests");
        const first = integration === undefined ? "INTEGRATION" : "FROM";
        const slowest = integration === undefined ? "SLOWEST " : "";
        await output.line(createTable(columnsOf(first, slowest), output.paint, output.layout).draw(rows).trimEnd());
      }),
    );
}

/** A line for each integration. Medians and percentiles of a longer time are not known: the highest is shown. */
function bySeries({ total, series }: GetSeriesResponse): StatsRow[] {
  if (series.length === 0) return [];
  const all = [...series, ...(total === undefined ? [] : [total])];
  return all.map((one, i) => ({
    title: i === series.length ? "all" : one.other ? "(other)" : one.integration,
    requests: sum(one.requests),
    providerErrors: sum(one.providerErrors),
    ownErrors: sum(one.ownErrors),
    addedP99: Math.max(...one.addedP99Ms),
    wholeP50: Math.max(...one.wholeP50Ms),
    wholeP99: Math.max(...one.wholeP99Ms),
  }));
}

function byTime({ series: [one], start, step }: GetSeriesResponse): StatsRow[] {
  if (one === undefined || start === undefined || step === undefined) return [];
  const at = (i: number) => formatTime(timestampFromMs(timestampMs(start) + i * millisecondsOf(step)));
  return one.requests.map((requests, i) => ({
    title: at(i),
    requests,
    providerErrors: valueAt(one.providerErrors, i),
    ownErrors: valueAt(one.ownErrors, i),
    addedP99: valueAt(one.addedP99Ms, i),
    wholeP50: valueAt(one.wholeP50Ms, i),
    wholeP99: valueAt(one.wholeP99Ms, i),
  }));
}

const columnsOf = (first: string, slowest: string): Column<StatsRow>[] => [
  { title: first, text: ({ title }) => title },
  { title: "REQUESTS", text: ({ requests }) => String(requests) },
  { title: "PROVIDER ERRORS", text: ({ providerErrors }) => String(providerErrors) },
  { title: "LATCHKEY ERRORS", text: ({ ownErrors }) => String(ownErrors) },
  { title: `${slowest}P50`, text: ({ wholeP50 }) => `${wholeP50.toFixed(1)} ms` },
  { title: `${slowest}P99`, text: ({ wholeP99 }) => `${wholeP99.toFixed(1)} ms` },
  { title: "LATCHKEY P99", text: ({ addedP99 }) => `${addedP99.toFixed(1)} ms` },
];

const sum = (values: TrafficSeries["requests"]): number => values.reduce((all, value) => all + value, 0);
const valueAt = (values: readonly number[], at: number): number => values[at] ?? 0;
