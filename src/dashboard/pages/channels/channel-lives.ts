import { type Channel, Channel_State as ChannelState } from "../../../gen/latchkey/v1/channel_pb.ts";
import type { BadgeTone } from "../../components/badge.tsx";
import { msOf, words } from "../../data/format.ts";

/** All channels that watched one resource of a connection, oldest first. */
export interface ChannelHistory {
  readonly key: string;
  readonly lives: readonly Channel[];
  /** The channel that delivers now, or else the latest one. */
  readonly latest: Channel;
}

/** A stretch of time in which a channel delivered, should have delivered, or will. */
export interface LifeSpan {
  readonly kind: "life" | "planned" | "ended" | "gap" | "silent" | "failed";
  readonly fromMs: number;
  readonly toMs: number;
  readonly title: string;
  readonly id: string;
}

const running: readonly ChannelState[] = [ChannelState.ACTIVE, ChannelState.RENEWING];
const over: readonly ChannelState[] = [ChannelState.STOPPED, ChannelState.EXPIRED, ChannelState.FAILED];

export const isRunning = ({ state }: Channel): boolean => running.includes(state);
export const isOver = ({ state }: Channel): boolean => over.includes(state);

/** Groups channels by what they watch. */
export function historiesOf(channels: readonly Channel[]): readonly ChannelHistory[] {
  const byResource = new Map<string, Channel[]>();
  for (const channel of channels) {
    const { connection, resourceKind, resource } = channel;
    const key = JSON.stringify([connection?.integration, connection?.id, resourceKind, resource]);
    const lives = byResource.get(key);
    if (lives === undefined) byResource.set(key, [channel]);
    else lives.push(channel);
  }
  return [...byResource].map(([key, unsorted]) => {
    const lives = unsorted.toSorted((a, b) => startMs(a) - startMs(b));
    const latest = lives.findLast(isRunning) ?? lives.findLast((one) => !isOver(one)) ?? lives.at(-1);
    if (latest === undefined) throw new Error("a history has at least one channel");
    return { key, lives, latest };
  });
}

const startMs = ({ createdAt }: Channel): number => msOf(createdAt) ?? 0;

/** When a channel ended or will end; undefined if that is unknown. */
function endMs(channel: Channel): number | undefined {
  const { state, updatedAt, expiresAt } = channel;
  if (state === ChannelState.STOPPED) return msOf(updatedAt);
  return msOf(expiresAt) ?? (isOver(channel) ? msOf(updatedAt) : undefined);
}

/** Whether the channel has no end: a channel of Latchkey's without an expiry. */
export const isEndless = (channel: Channel): boolean =>
  channel.managed && isRunning(channel) && channel.expiresAt === undefined;

/** Whether the provider confirmed the channel. Its renewal is planned from then on; a script's channel has none. */
const wasMade = (channel: Channel): boolean =>
  channel.state !== ChannelState.FAILED && (!channel.managed || channel.renewAt !== undefined || isEndless(channel));

/** Changes of less than this between two channels are not shown as a gap. */
const shortestGapMs = 60_000;

/** The spans of a history, in the order in which they are drawn. */
export function spansOf({ lives, latest }: ChannelHistory, nowMs: number): readonly LifeSpan[] {
  const spans: LifeSpan[] = [];
  /** Until when some channel was there. */
  let coveredMs: number | undefined;
  for (const one of lives) {
    const { id, state, stateReason } = one;
    const fromMs = startMs(one);
    if (state === ChannelState.CREATING) continue;
    if (!wasMade(one)) {
      const title = state === ChannelState.FAILED ? "Refused" : "No answer to the request";
      spans.push({ kind: "failed", fromMs, toMs: fromMs, id, title: `${title}: ${words(stateReason)}` });
      continue;
    }
    const untilMs = endMs(one) ?? (isOver(one) ? fromMs : Number.POSITIVE_INFINITY);
    if (coveredMs !== undefined && fromMs - coveredMs > shortestGapMs)
      spans.push({ kind: "gap", fromMs: coveredMs, toMs: fromMs, id, title: "No channel: messages may be missing" });
    const livedMs = Math.min(untilMs, nowMs);
    spans.push({ kind: isOver(one) ? "ended" : "life", fromMs, toMs: livedMs, id, title: stateText(one) });
    if (untilMs > nowMs && !isOver(one))
      spans.push({ kind: "planned", fromMs: nowMs, toMs: untilMs, id, title: "Until it expires" });
    coveredMs = Math.max(coveredMs ?? 0, untilMs);
  }
  const wasStopped = latest.state === ChannelState.STOPPED && latest.stateReason === "asked";
  if (coveredMs !== undefined && nowMs - coveredMs > shortestGapMs && !wasStopped)
    spans.push({ kind: "gap", fromMs: coveredMs, toMs: nowMs, id: latest.id, title: "No channel since then" });
  if (latest.silent) {
    const fromMs = msOf(latest.lastNotifiedAt) ?? startMs(latest);
    spans.push({ kind: "silent", fromMs, toMs: nowMs, id: latest.id, title: "Silent for longer than usual" });
  }
  return spans;
}

const stateNames: Readonly<Record<ChannelState, string>> = {
  [ChannelState.UNSPECIFIED]: "Unknown",
  [ChannelState.CREATING]: "Creating",
  [ChannelState.ACTIVE]: "Active",
  [ChannelState.RENEWING]: "Renewing",
  [ChannelState.STOPPING]: "Stopping",
  [ChannelState.STOPPED]: "Stopped",
  [ChannelState.EXPIRED]: "Expired",
  [ChannelState.FAILED]: "Refused",
};

const stateText = ({ state }: Channel): string => stateNames[state] ?? stateNames[ChannelState.UNSPECIFIED];

/** The state in a word, as people should react to it. */
export function channelWords(channel: Channel): readonly [tone: BadgeTone, text: string] {
  const text = stateText(channel);
  if (isRunning(channel)) {
    if (channel.silent) return ["warn", "Silent"];
    return channel.stateReason === "" ? ["good", text] : ["warn", "Renewal fails"];
  }
  if (channel.state === ChannelState.EXPIRED || channel.state === ChannelState.FAILED) return ["bad", text];
  return [channel.state === ChannelState.CREATING ? "info" : "quiet", text];
}

/** Filters by state, as the list of Latchkey has them. */
export const stateChoices: readonly (readonly [value: string, name: string, states: readonly ChannelState[]])[] = [
  ["active", "active", running],
  ["changing", "being created or stopped", [ChannelState.CREATING, ChannelState.STOPPING]],
  ["expired", "expired", [ChannelState.EXPIRED]],
  ["failed", "refused", [ChannelState.FAILED]],
  ["stopped", "stopped", [ChannelState.STOPPED]],
];

export const statesChosen = (value: string): readonly ChannelState[] =>
  stateChoices.find(([name]) => name === value)?.[2] ?? [];
