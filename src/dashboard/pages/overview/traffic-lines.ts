import { durationMs } from "@bufbuild/protobuf/wkt";
import type { GetSeriesResponse, TrafficSeries } from "../../../gen/latchkey/v1/traffic_pb.ts";
import type { ChartLine } from "../../components/chart.tsx";
import { countText, msOf } from "../../data/format.ts";

/** The lines of all charts. */
export interface TrafficLines {
  readonly times: readonly number[];
  /** Requests of each step. */
  readonly counts: readonly ChartLine[];
  readonly errors: readonly ChartLine[];
  readonly slowest: readonly ChartLine[];
  readonly added: readonly ChartLine[];
  /** The value of the last point with requests. */
  readonly latestP99: number | undefined;
}

/** More lines than colors would tell nothing. */
const colors = ["--chart-1", "--chart-2", "--chart-3", "--chart-4", "--chart-5"] as const;
const minuteMs = 60_000;

export const nameOf = ({ integration, other }: TrafficSeries): string => (other ? "Others" : integration);

export function chartsOf({ start, step, total, series }: GetSeriesResponse): TrafficLines {
  const startMs = msOf(start) ?? 0;
  const stepMs = step === undefined ? minuteMs : durationMs(step);
  const count = total?.requests.length ?? 0;
  const times = Array.from({ length: count }, (_, i) => (startMs + i * stepMs) / 1_000);
  const shown = series.slice(0, colors.length);
  const lineOf = (one: TrafficSeries, at: number, values: ChartLine["values"]): ChartLine => ({
    name: nameOf(one),
    color: colors[at] ?? "--quiet",
    values,
  });
  const seen = (one: TrafficSeries, values: readonly number[]) =>
    values.map((value, i) => ((one.requests[i] ?? 0) > 0 ? value : null));
  const latest = total?.requests.findLastIndex((requests) => requests > 0) ?? -1;
  return {
    times,
    counts: shown.map((one, at) => ({ ...lineOf(one, at, one.requests), isFilled: shown.length === 1 })),
    errors: [
      { name: "Provider", color: "--warn", values: total?.providerErrors ?? [], isFilled: true },
      { name: "Latchkey", color: "--bad", values: total?.ownErrors ?? [], isFilled: true },
    ],
    slowest: shown.map((one, at) => lineOf(one, at, seen(one, one.wholeP99Ms))),
    added: [
      { name: "p99", color: "--chart-2", values: total === undefined ? [] : seen(total, total.addedP99Ms) },
      { name: "Median", color: "--chart-1", values: total === undefined ? [] : seen(total, total.addedP50Ms) },
    ],
    latestP99: latest < 0 ? undefined : total?.wholeP99Ms[latest],
  };
}

export const sumOf = (values: readonly number[] = []): number => values.reduce((sum, value) => sum + value, 0);

/** "12 (0.3 %)". */
export function share(part: number, whole: number): string {
  if (part === 0 || whole === 0) return "0";
  const percent = (part / whole) * 100;
  return `${countText(part)} (${percent < 0.1 ? "< 0.1" : percent < 10 ? percent.toFixed(1) : Math.round(percent)} %)`;
}
