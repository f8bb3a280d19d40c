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
        { ...axis, grid: { show: false } },
        { ...axis, size: 56, values: (_plot, splits) => splits.map((value) => format(value)) },
      ],
      series: [
        {},
        ...lines.map(({ name, color: property, isFilled }) => ({
          label: name,
          stroke: color(property),
          width: 1.5,
          points: { show: false },
          value: (_plot: uPlot, value: number | null) => (value === null ? "–" : format(value)),
          ...(isFilled && { fill: `color-mix(in srgb, ${color(property)} 14%, transparent)` }),
        })),
      ],
    },
    [[...times], ...lines.map(({ values }) => [...values])],
    element,
  );
}
