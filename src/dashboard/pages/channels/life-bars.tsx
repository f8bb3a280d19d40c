import { durationText, exactTime, relativeTime } from "../../data/format.ts";
import type { LifeSpan } from "./channel-lives.ts";

/** The time that the bars show. */
export interface LifeWindow {
  readonly fromMs: number;
  readonly nowMs: number;
  readonly toMs: number;
}

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

export const windowChoices: readonly (readonly [value: string, name: string])[] = [
  ["1d", "1 day"],
  ["7d", "7 days"],
  ["14d", "14 days"],
];

/** The past of the chosen length, and a third of it to come. */
export function windowOf(choice: string, nowMs: number): LifeWindow {
  const pastMs = choice === "1d" ? dayMs : choice === "14d" ? 14 * dayMs : 7 * dayMs;
  return { fromMs: nowMs - pastMs, nowMs, toMs: nowMs + pastMs / 3 };
}

const percent = (share: number): string => `${(100 * share).toFixed(3)}%`;

function shareOf(ms: number, { fromMs, toMs }: LifeWindow): number {
  return Math.min(1, Math.max(0, (ms - fromMs) / (toMs - fromMs)));
}

const barTop = 6;
const barHeight = 14;
const height = 26;

interface LifeBarsProps {
  readonly spans: readonly LifeSpan[];
  readonly window: LifeWindow;
  /** Time of the next renewal. */
  readonly renewMs: number | undefined;
  readonly label: string;
}

/** The lives of the channels of one resource as bars, with gaps, silence and the next renewal. */
export function LifeBars({ spans, window, renewMs, label }: LifeBarsProps) {
  const now = percent(shareOf(window.nowMs, window));
  return (
    <svg class="life-bars" role="img" aria-label={label} height={height} width="100%">
      <line class="life-track" x1="0" x2="100%" y1={height / 2} y2={height / 2} />
      {spans.map((span) => (
        <LifeBar key={`${span.kind} ${span.id}`} span={span} window={window} />
      ))}
      {renewMs !== undefined && renewMs < window.toMs && (
        <line
          class="life-renewal"
          x1={percent(shareOf(renewMs, window))}
          x2={percent(shareOf(renewMs, window))}
          y1={barTop - 3}
          y2={barTop + barHeight + 3}
        >
          <title>{`Renewal ${relativeTime(renewMs)}, ${exactTime(renewMs)}`}</title>
        </line>
      )}
      <line class="life-now" x1={now} x2={now} y1="0" y2={height} />
    </svg>
  );
}

function LifeBar({ span, window }: { readonly span: LifeSpan; readonly window: LifeWindow }) {
  const { kind, fromMs, toMs, title } = span;
  const [from, to] = [shareOf(fromMs, window), shareOf(toMs, window)];
  if (kind === "failed") {
    if (fromMs < window.fromMs) return null;
    return (
      <circle class="life failed" cx={percent(from)} cy={height / 2} r="4">
        <title>{`${title}, ${exactTime(fromMs)}`}</title>
      </circle>
    );
  }
  if (to <= from) return null;
  const until = Number.isFinite(toMs)
    ? ` to ${exactTime(toMs)} (${durationText(toMs - fromMs)})`
    : ", without a known end";
  return (
    <rect class={`life ${kind}`} x={percent(from)} width={percent(to - from)} y={barTop} height={barHeight} rx="2">
      <title>{`${title}: ${exactTime(fromMs)}${until}`}</title>
    </rect>
  );
}

/** The times below the bars. */
export function LifeAxis({ window }: { readonly window: LifeWindow }) {
  const { fromMs, nowMs, toMs } = window;
  return (
    <svg class="life-axis" height="18" width="100%" aria-hidden="true">
      <text x="0" y="13">
        {durationText(nowMs - fromMs)} ago
      </text>
      <text x={percent(shareOf(nowMs, window))} y="13" text-anchor="middle">
        now
      </text>
      <text x="100%" y="13" text-anchor="end">
        in {durationText(toMs - nowMs)}
      </text>
    </svg>
  );
}
