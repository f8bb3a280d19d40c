import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type uPlot from "uplot";
import { theme } from "../state/theme.ts";

/** Follows the system while the theme does. */
const darkSystem = window.matchMedia("(prefers-color-scheme: dark)");
const isSystemDark = signal(darkSystem.matches);
darkSystem.addEventListener("change", ({ matches }) => {
  isSystemDark.value = matches;
});

export interface ChartLine {
  readonly name: string;
  /** A custom property of the style sheet, such as `--accent`. */
  readonly color: string;
  readonly values: readonly (number | null)[];
  readonly isFilled?: boolean;
}

interface ChartProps {
  readonly label: string;
  /** Seconds since 1970. */
  readonly times: readonly number[];
  readonly lines: readonly ChartLine[];
  readonly format: (value: number) => string;
  readonly height?: number;
}

/** Lines over time. The drawing code is loaded with the first chart. */
export function Chart({ label, times, lines, format, height = 160 }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let plot: uPlot | undefined;
    let isOver = false;
    const resize = new ResizeObserver(([entry]) => {
      if (entry !== undefined) plot?.setSize({ width: Math.floor(entry.contentRect.width), height });
    });
    void import("./plot.ts").then(({ drawPlot }) => {
      const element = box.current;
      if (isOver || element === null) return;
      plot = drawPlot({ element, times, lines, format, height });
      resize.observe(element);
    });
    return () => {
      isOver = true;
      resize.disconnect();
      plot?.destroy();
    };
  }, [times, lines, height, theme.value, isSystemDark.value]);
  return <div ref={box} class="chart" role="img" aria-label={label} />;
}
