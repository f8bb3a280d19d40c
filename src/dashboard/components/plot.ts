import uPlot from "uplot";
import type { ChartLine } from "./chart.tsx";

interface PlotOptions {
  readonly element: HTMLElement;
  readonly times: readonly number[];
  readonly lines: readonly ChartLine[];
  readonly format: (value: number) => string;
  readonly height: number;
}

const font = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

export function drawPlot({ element, times, lines, format, height }: PlotOptions): uPlot {
  const style = getComputedStyle(document.documentElement);
  const color = (name: string) => style.getPropertyValue(name).trim();
  const axis = { stroke: color("--quiet"), font, ticks: { show: false }, grid: { stroke: color("--line"), width: 1 } };
  return new uPlot(
    {
      width: element.clientWidth,
      height,
      cursor: { points: { size: 6 }, y: false },
      legend: { show: true, live: true },
      scales: { y: { range: (_plot, _min, max) => [0, max > 0 ? max * 1.1 : 1] } },
      axes: [
        { ...axis, grid: { show: false }, size: 28, space: 64, values: (_plot, splits) => splits.map(clockOf) },
        { ...axis, size: 56, values: (_plot, splits) => splits.map((value) => format(value)) },
      ],
      series: [
        { label: "Time", value: (_plot: uPlot, seconds: number | null) => (seconds === null ? "–" : clockOf(seconds)) },
        ...lines.map(({ name, color: property, isFilled }) => ({
          label: name,
          stroke: color(property),
          width: 1.5,
          points: { show: true, size: 4, fill: color(property), filter: alone },
          value: (_plot: uPlot, value: number | null) => (value === null ? "–" : format(value)),
          ...(isFilled && { fill: `color-mix(in srgb, ${color(property)} 14%, transparent)` }),
        })),
      ],
    },
    [[...times], ...lines.map(({ values }) => [...values])],
    element,
  );
}

const clockFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const clockOf = (seconds: number): string => clockFormat.format(seconds * 1_000);

/** Values without neighbors, which no line would show. */
const alone: uPlot.Series.Points.Filter = (plot, series) => {
  const values = plot.data[series] ?? [];
  return [...values.keys()].filter((i) => values[i] != null && values[i - 1] == null && values[i + 1] == null);
};
