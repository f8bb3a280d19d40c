import { create } from "@bufbuild/protobuf";
import { type ChannelRhythm, ChannelRhythmSchema } from "../../../gen/latchkey/stored/v1/stored_pb.ts";

/**
 * Judges in periodic scans whether a channel has lost messages or fallen silent. A pure function of what earlier scans
 * stored, the last notification, and the messages that arrived. Numbers arrive in any order, repeatedly, and late. A
 * missing number is a loss only once it has been missing for a while.
 */
export interface LossEvidence {
  readonly nowMs: number;
  /** Since when notifications could be received here, as far as is known. */
  readonly listeningSinceMs: number;
  /** Undefined: none yet. */
  readonly last: LastMessage | undefined;
  /** Whether the provider numbers messages without gaps. */
  readonly isSequential: boolean;
  /** The numbers from `toVerify` that arrived. */
  readonly arrived: ReadonlySet<bigint>;
  /** The provider sends a message at least this often; undefined: it sends them when there is something to say. */
  readonly heartbeatMs?: number | undefined;
  /** The provider announces the channel by a first message without other content. */
  readonly isAnnounced: boolean;
}

export interface LastMessage {
  /** The number as received. */
  readonly number: string;
  readonly atMs: number;
}

export interface Loss {
  readonly kind: "gap" | "silent";
  readonly code: "numbers_missing" | "numbers_restarted" | "beyond_its_rhythm" | "never_heard" | "no_heartbeat";
}

export interface GapJudgement {
  readonly after: ChannelRhythm;
  /** Each loss is reported once. */
  readonly losses: readonly Loss[];
}

/** A message may arrive, or be retried, this long after one with a higher number. */
export const graceMs = 5 * 60_000;
/** A channel without a first message within this time cannot deliver. */
export const firstWithinMs = 10 * 60_000;
/** A channel with fewer pauses has no rhythm yet. */
const fewestPauses = 8;
/** Five times its longest pause: a work calendar is silent from Friday to Monday. */
const timesItsPause = 5;
const shortestSilenceMs = 3_600_000;
/** A channel so rare that its silence would show only after this time is never called silent. */
const longestSilenceMs = 30 * 86_400_000;
/** The weight of a pause halves after this time, so that holidays are forgotten. */
const pauseHalvesInMs = 30 * 86_400_000;
/** Limits the numbers of each scan; for a larger jump, the first ones are enough. */
const mostVerified = 500;

/** More digits than 64 bits hold are ignored: such a number cannot be judged. */
const numberOf = (last: LastMessage | undefined): bigint =>
  last !== undefined && /^\d{1,19}$/.test(last.number) ? BigInt(last.number) : 0n;

const larger = (a: bigint, b: bigint): bigint => (a > b ? a : b);

/** The numbers whose arrival must be checked. The first one did arrive, if its record is still stored. */
export function toVerify(before: ChannelRhythm | undefined, last: LastMessage | undefined): readonly bigint[] {
  const top = larger(before?.highest ?? 0n, numberOf(last));
  const from = before === undefined || before.settled === 0n ? 1n : before.settled;
  if (top <= from) return [];
  const count = Math.min(mostVerified, Number(top - from) + 1);
  return Array.from({ length: count }, (_, i) => from + BigInt(i));
}

export function judgeLosses(before: ChannelRhythm | undefined, evidence: LossEvidence): GapJudgement {
  const known = before ?? create(ChannelRhythmSchema, { sinceMs: evidence.nowMs });
  const numbers = judgeNumbers(known, evidence);
  const rhythm = judgeRhythm(numbers.after, evidence);
  return { after: rhythm.after, losses: [...numbers.losses, ...rhythm.losses] };
}

/** A successor inherits the rhythm of its predecessor, but not its numbers. */
export const inheritRhythm = ({ pauseMs, pauses, toldSilent }: ChannelRhythm, nowMs: number): ChannelRhythm =>
  create(ChannelRhythmSchema, { sinceMs: nowMs, pauseMs, pauses, toldSilent });

function judgeNumbers(before: ChannelRhythm, evidence: LossEvidence): GapJudgement {
  const number = numberOf(evidence.last);
  if (number === 0n) return { after: before, losses: [] };
  const restarted = judgeOrder(before, number, evidence.nowMs);
  if (!evidence.isSequential || restarted.losses.length > 0) return restarted;
  return judgeJumps(restarted.after, evidence);
}

/**
 * A single number lower than an earlier one is late. If lower numbers continue, the provider has restarted the
 * numbering.
 */
function judgeOrder(before: ChannelRhythm, number: bigint, nowMs: number): GapJudgement {
  const { highest, backAt, backSinceMs } = before;
  if (number >= highest) return { after: { ...before, highest: number, backAt: 0n, backSinceMs: 0 }, losses: [] };
  // A clock that was set back starts the wait again.
  if (backAt === 0n || number < backAt || backSinceMs > nowMs)
    return { after: { ...before, backAt: number, backSinceMs: nowMs }, losses: [] };
  if (number === backAt || nowMs - backSinceMs < graceMs) return { after: before, losses: [] };
  const restarted = {
    highest: number,
    settled: number,
    missingBelow: 0n,
    missingSinceMs: 0,
    backAt: 0n,
    backSinceMs: 0,
  };
  return { after: { ...before, ...restarted }, losses: [{ kind: "gap", code: "numbers_restarted" }] };
}

function judgeJumps(before: ChannelRhythm, { arrived, nowMs }: LossEvidence): GapJudgement {
  const { highest } = before;
  const settledOn = (settled: bigint): ChannelRhythm => ({ ...before, settled, missingBelow: 0n, missingSinceMs: 0 });
  const first = before.settled === 0n ? 1n : before.settled;
  // The time before this scan is unknown, or so long ago that its records are gone.
  if (first < highest && !arrived.has(first)) return { after: settledOn(highest), losses: [] };
  let settled = larger(first, 0n);
  while (settled < highest && arrived.has(settled + 1n)) settled += 1n;
  if (settled >= highest) return { after: settledOn(highest), losses: [] };
  const { missingBelow, missingSinceMs } = before;
  if (missingBelow === 0n || settled >= missingBelow || missingSinceMs > nowMs) {
    // Only this many were checked: the next scan checks the rest.
    const isUnknown = arrived.size >= mostVerified;
    const missing = isUnknown ? {} : { missingBelow: highest, missingSinceMs: nowMs };
    return { after: { ...settledOn(settled), ...missing }, losses: [] };
  }
  if (nowMs - missingSinceMs < graceMs) return { after: { ...before, settled }, losses: [] };
  return { after: settledOn(missingBelow), losses: [{ kind: "gap", code: "numbers_missing" }] };
}

function judgeRhythm(before: ChannelRhythm, evidence: LossEvidence): GapJudgement {
  const { nowMs, listeningSinceMs, last, isAnnounced, heartbeatMs } = evidence;
  if (heartbeatMs !== undefined && !before.toldSilent) {
    const heardMs = Math.max(last?.atMs ?? 0, before.sinceMs, listeningSinceMs);
    if (nowMs - heardMs > heartbeatMs)
      return { after: { ...before, toldSilent: true }, losses: [{ kind: "silent", code: "no_heartbeat" }] };
  }
  if (last === undefined) {
    const sinceMs = Math.max(before.sinceMs, listeningSinceMs);
    const isOverdue = isAnnounced && !before.toldSilent && nowMs - sinceMs > firstWithinMs;
    if (!isOverdue) return { after: before, losses: [] };
    return { after: { ...before, toldSilent: true }, losses: [{ kind: "silent", code: "never_heard" }] };
  }
  if (last.atMs !== before.heardMs) return { after: withMessage(before, last.atMs), losses: [] };
  const silentMs = nowMs - Math.max(last.atMs, listeningSinceMs);
  if (before.toldSilent || silentMs <= silenceMs(before)) return { after: before, losses: [] };
  return { after: { ...before, toldSilent: true }, losses: [{ kind: "silent", code: "beyond_its_rhythm" }] };
}

function withMessage(before: ChannelRhythm, heardMs: number): ChannelRhythm {
  const after = { ...before, heardMs, toldSilent: false };
  // The first notification of all, or a clock that was set back.
  if (before.heardMs === 0 || heardMs < before.heardMs) return after;
  const pause = heardMs - before.heardMs;
  const pauseMs = Math.max(pause, before.pauseMs * 2 ** (-pause / pauseHalvesInMs));
  return { ...after, pauseMs, pauses: Math.min(1_000_000, before.pauses + 1) };
}

/** A channel is silent after this time without notifications; infinite: never. */
export function silenceMs({ pauseMs, pauses }: Pick<ChannelRhythm, "pauseMs" | "pauses">): number {
  const silence = Math.max(shortestSilenceMs, timesItsPause * pauseMs);
  return pauses < fewestPauses || silence > longestSilenceMs ? Number.POSITIVE_INFINITY : silence;
}
