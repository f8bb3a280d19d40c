import type { Writable } from "node:stream";
import { amount, span } from "./amounts.ts";
import type { Terminal } from "./terminal.ts";

/** How far a long command has come. */
export interface Progress {
  /** In bytes, or in whatever the end is known in. */
  readonly done: number;
  /** Undefined where the end cannot be known, as of what is piped in. */
  readonly total: number | undefined;
  readonly items: number;
  /** Left out where items do not fail one by one. */
  readonly failed?: number;
}

/** Tells a person how far a long command has come, no oftener than a person can read. */
export interface ProgressDisplay {
  update(progress: Progress): void;
  /** Writes a line that stays. */
  say(line: string): void;
  end(): void;
}

interface DisplayOptions {
  readonly stderr: Writable;
  /** A bar that is redrawn in place, lines now and then, or nothing. */
  readonly as: "bar" | "lines" | "nothing";
  readonly now: () => number;
}

/** On stderr: drawn for a person, said now and then where nobody watches. */
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
      // What stays pushes the bar down: it is drawn again below.
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

/** `[########------------]  42 %  420,000 items  24,390/s  3 failed  24 s left`: fits into 80 columns. */
export function progressLine(progress: Progress, elapsedMs: number, { bar }: { readonly bar: boolean }): string {
  const { done, total, items, failed } = progress;
  const share = total === undefined || total === 0 ? undefined : Math.min(1, done / total);
  const rate = elapsedMs === 0 ? 0 : (items * 1_000) / elapsedMs;
  const parts = [
    share === undefined ? undefined : `${Math.floor(share * 100)} %`.padStart(bar ? 5 : 0),
    `${amount(items)} items`,
    `${amount(rate)}/s`,
    failed === undefined ? undefined : `${amount(failed)} failed`,
    share === undefined || share === 0 ? undefined : `${span((elapsedMs / share) * (1 - share))} left`,
  ];
  const text = parts.filter((part) => part !== undefined).join("  ");
  if (!bar || share === undefined) return text;
  const drawn = `[${"#".repeat(Math.floor(share * barWidth)).padEnd(barWidth, "-")}]  ${text}`;
  // A line that wraps cannot be erased: of the two, the numbers say more.
  return drawn.length > columns ? text : drawn;
}
