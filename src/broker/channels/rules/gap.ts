import { create } from "@bufbuild/protobuf";
import { type ChannelRhythm, ChannelRhythmSchema } from "../../../gen/latchkey/stored/v1/stored_pb.ts";

/**
 * Whether a channel has lost something or fallen silent, judged by a look at it now and then: pure, from what earlier
 * looks remember, what was last heard, and which messages have come. Numbers come in any order and more than once,
 * and may be on their way still: what is missing is a loss only once it has been missing for a while.
 */
export interface ChannelScan {
  readonly nowMs: number;
  /** Since when whatever came could have been heard here, as far as that is known. */
  readonly listeningSinceMs: number;
  /** Undefined: nothing yet. */
  readonly heard: HeardNotification | undefined;
  /** Whether its numbers are without gaps. */
  readonly isSequential: boolean;
  /** Of the numbers of `toVerify`, those that came. */
  readonly arrived: ReadonlySet<bigint>;
  /** It is said to be there by a first message, which says nothing else. */
  readonly isAnnounced: boolean;
}

export interface HeardNotification {
  /** As received. */
  readonly number: string;
  readonly atMs: number;
}

export interface Loss {
  readonly kind: "gap" | "silent";
  readonly code: "numbers_missing" | "numbers_restarted" | "beyond_its_rhythm" | "never_heard";
}

export interface GapJudgement {
  readonly after: ChannelRhythm;
  /** Each is told once. */
  readonly losses: readonly Loss[];
}

/** So long a message may be on its way, or be tried again, after one with a higher number. */
export const graceMs = 5 * 60_000;
/** A channel whose first message did not come within this time cannot be heard. */
export const firstWithinMs = 10 * 60_000;
/** With fewer pauses than this it has no rhythm yet. */
const fewestPauses = 8;
/** Five times its longest pause: a calendar of the working week is silent from Friday to Monday. */
const timesItsPause = 5;
const shortestSilenceMs = 3_600_000;
/** What is heard so rarely that its silence could be told of only after this is never silent. */
const longestSilenceMs = 30 * 86_400_000;
/** A pause counts half as much after so long: holidays are forgotten in time. */
const pauseHalvesInMs = 30 * 86_400_000;
/** Of each look: of a jump by more, the first of them say enough. */
const mostVerified = 500;

/** More digits than 64 bits hold are no number that anything can be said of. */
const numberOf = (heard: HeardNotification | undefined): bigint =>
  heard !== undefined && /^\d{1,19}$/.test(heard.number) ? BigInt(heard.number) : 0n;

const larger = (a: bigint, b: bigint): bigint => (a > b ? a : b);

/** The numbers of which it must be known whether they came. The first of them came, if such is still remembered. */
export function toVerify(before: ChannelRhythm | undefined, heard: HeardNotification | undefined): readonly bigint[] {
  const top = larger(before?.highest ?? 0n, numberOf(heard));
  const from = before === undefined || before.settled === 0n ? 1n : before.settled;
  if (top <= from) return [];
  const count = Math.min(mostVerified, Number(top - from) + 1);
  return Array.from({ length: count }, (_, i) => from + BigInt(i));
}

export function judged(before: ChannelRhythm | undefined, look: ChannelScan): GapJudgement {
  const known = before ?? create(ChannelRhythmSchema, { sinceMs: look.nowMs });
  const numbers = judgedNumbers(known, look);
  const rhythm = judgedRhythm(numbers.after, look);
  return { after: rhythm.after, losses: [...numbers.losses, ...rhythm.losses] };
}

/** A successor goes on in the rhythm of what it took the place of; its numbers are its own. */
export const inherited = ({ pauseMs, pauses, toldSilent }: ChannelRhythm, nowMs: number): ChannelRhythm =>
  create(ChannelRhythmSchema, { sinceMs: nowMs, pauseMs, pauses, toldSilent });

function judgedNumbers(before: ChannelRhythm, look: ChannelScan): GapJudgement {
  const number = numberOf(look.heard);
  if (number === 0n) return { after: before, losses: [] };
  const restarted = judgedOrder(before, number, look.nowMs);
  if (!look.isSequential || restarted.losses.length > 0) return restarted;
  return judgedJumps(restarted.after, look);
}

/** One number that is lower than another before it is late; when lower ones go on, the channel is not what it was. */
function judgedOrder(before: ChannelRhythm, number: bigint, nowMs: number): GapJudgement {
  const { highest, backAt, backSinceMs } = before;
  if (number >= highest) return { after: { ...before, highest: number, backAt: 0n, backSinceMs: 0 }, losses: [] };
  // A clock that was set back begins anew.
  if (backAt === 0n || number < backAt || backSinceMs > nowMs)
    return { after: { ...before, backAt: number, backSinceMs: nowMs }, losses: [] };
  if (number === backAt || nowMs - backSinceMs < graceMs) return { after: before, losses: [] };
  const anew = { highest: number, settled: number, missingBelow: 0n, missingSinceMs: 0, backAt: 0n, backSinceMs: 0 };
  return { after: { ...before, ...anew }, losses: [{ kind: "gap", code: "numbers_restarted" }] };
}

function judgedJumps(before: ChannelRhythm, { arrived, nowMs }: ChannelScan): GapJudgement {
  const { highest } = before;
  const settledOn = (settled: bigint): ChannelRhythm => ({ ...before, settled, missingBelow: 0n, missingSinceMs: 0 });
  const first = before.settled === 0n ? 1n : before.settled;
  // Nothing is known of what came before this look, or it is too long ago for anybody to remember.
  if (first < highest && !arrived.has(first)) return { after: settledOn(highest), losses: [] };
  let settled = larger(first, 0n);
  while (settled < highest && arrived.has(settled + 1n)) settled += 1n;
  if (settled >= highest) return { after: settledOn(highest), losses: [] };
  const { missingBelow, missingSinceMs } = before;
  if (missingBelow === 0n || settled >= missingBelow || missingSinceMs > nowMs) {
    // Looked through only so far: that the rest is there too, the next look finds.
    const isUnknown = arrived.size >= mostVerified;
    const missing = isUnknown ? {} : { missingBelow: highest, missingSinceMs: nowMs };
    return { after: { ...settledOn(settled), ...missing }, losses: [] };
  }
  if (nowMs - missingSinceMs < graceMs) return { after: { ...before, settled }, losses: [] };
  return { after: settledOn(missingBelow), losses: [{ kind: "gap", code: "numbers_missing" }] };
}

function judgedRhythm(before: ChannelRhythm, look: ChannelScan): GapJudgement {
  const { nowMs, listeningSinceMs, heard, isAnnounced } = look;
  if (heard === undefined) {
    const sinceMs = Math.max(before.sinceMs, listeningSinceMs);
    const isOverdue = isAnnounced && !before.toldSilent && nowMs - sinceMs > firstWithinMs;
    if (!isOverdue) return { after: before, losses: [] };
    return { after: { ...before, toldSilent: true }, losses: [{ kind: "silent", code: "never_heard" }] };
  }
  if (heard.atMs !== before.heardMs) return { after: heardAgain(before, heard.atMs), losses: [] };
  const silentMs = nowMs - Math.max(heard.atMs, listeningSinceMs);
  if (before.toldSilent || silentMs <= silenceMs(before)) return { after: before, losses: [] };
  return { after: { ...before, toldSilent: true }, losses: [{ kind: "silent", code: "beyond_its_rhythm" }] };
}

function heardAgain(before: ChannelRhythm, heardMs: number): ChannelRhythm {
  const after = { ...before, heardMs, toldSilent: false };
  // The first of all, or a clock that was set back.
  if (before.heardMs === 0 || heardMs < before.heardMs) return after;
  const pause = heardMs - before.heardMs;
  const pauseMs = Math.max(pause, before.pauseMs * 2 ** (-pause / pauseHalvesInMs));
  return { ...after, pauseMs, pauses: Math.min(1_000_000, before.pauses + 1) };
}

/** After so long without a word it is silent; infinite: never. */
export function silenceMs({ pauseMs, pauses }: Pick<ChannelRhythm, "pauseMs" | "pauses">): number {
  const silence = Math.max(shortestSilenceMs, timesItsPause * pauseMs);
  return pauses < fewestPauses || silence > longestSilenceMs ? Number.POSITIVE_INFINITY : silence;
}
