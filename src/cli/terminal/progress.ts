import type { Writable } from "node:stream";
import { formatMs, formatNumber } from "./format.ts";
import type { Terminal } from "./terminal.ts";

/** Progress of a long command. */
export interface Progress {
  /** In bytes, or in the unit of the total. */
  readonly done: number;
  /** Undefined if unknown, as for piped input. */
  readonly total: number | undefined;
  readonly items: number;
  /** Absent if items do not fail individually. */
  readonly failed?: number;
}

/** Shows progress no more often than a person can read. */
export interface ProgressDisplay {
  update(progress: Progress): void;
  /** Writes a permanent line. */
  say(line: string): void;
  end(): void;
}

interface DisplayOptions {
  readonly stderr: Writable;
  /** A bar redrawn in place, occasional lines, or nothing. */
  readonly as: "bar" | "lines" | "nothing";
  readonly now: () => number;
}

/** Shows progress on stderr: a bar on a terminal, occasional lines elsewhere. */
export const progressOn = ({ stderr, isTerminal }: Terminal, { quiet }: { readonly quiet: boolean }): ProgressDisplay =>
  createProgress({ stderr, as: quiet ? "nothing" : isTerminal ? "bar" : "lines", now: () => performance.now() });

const barIntervalMs = 100;
const lineIntervalMs = 5_000;
const eraseLine = "\r\x1b[K";

export function createProgress({ stderr, as, now }: DisplayOptions): ProgressDisplay {
  const began = now();
  const intervalMs = as === "bar" ? barIntervalMs : lineIntervalMs;
  let shownAt = began;
  let shown = "";
  return {
    update(progress) {
      const elapsedMs = now() - began;
      if (as === "nothing" || began + elapsedMs - shownAt < intervalMs) return;
      shownAt = began + elapsedMs;
      shown = progressLine(progress, elapsedMs, { bar: as === "bar" });
      stderr.write(as === "bar" ? eraseLine + shown : `${shown}\n`);
    },
    say(line) {
      // A permanent line replaces the bar, which is drawn again below.
      stderr.write(as === "bar" && shown !== "" ? `${eraseLine}${line}\n${shown}` : `${line}\n`);
    },
    end() {
      if (as === "bar" && shown !== "") stderr.write(eraseLine);
      shown = "";
    },
  };
}

const barWidth = 20;
const columns = 79;

/**
 * Returns a line such as `[########------------]  42 %  420,000 items  24,390/s  3 failed  24 s left`, which fits into
 * 80 columns.
 */
export function progressLine(progress: Progress, elapsedMs: number, { bar }: { readonly bar: boolean }): string {
  const { done, total, items, failed } = progress;
  const share = total === undefined || total === 0 ? undefined : Math.min(1, done / total);
  const rate = elapsedMs === 0 ? 0 : (items * 1_000) / elapsedMs;
  const parts = [
    share === undefined ? undefined : `${Math.floor(share * 100)} %`.padStart(bar ? 5 : 0),
    `${formatNumber(items)} items`,
    `${formatNumber(rate)}/s`,
    failed === undefined ? undefined : `${formatNumber(failed)} failed`,
    share === undefined || share === 0 ? undefined : `${formatMs((elapsedMs / share) * (1 - share))} left`,
  ];
  const text = parts.filter((part) => part !== undefined).join("  ");
  if (!bar || share === undefined) return text;
  const drawn = `[${"#".repeat(Math.floor(share * barWidth)).padEnd(barWidth, "-")}]  ${text}`;
  // A wrapped line cannot be erased: drop the bar, since the numbers say more.
  return drawn.length > columns ? text : drawn;
}
