import { DurationCounts } from "./duration-counts.ts";

/** How a request ended, for the series. */
export const outcomes = { answered: 0, providerError: 1, ownError: 2 } as const;
export type Outcome = (typeof outcomes)[keyof typeof outcomes];

/** Counts of a time that is not over. */
export class OpenCounts {
  requests = 0;
  providerErrors = 0;
  ownErrors = 0;
  /** Milliseconds until the request was sent. */
  readonly added = new DurationCounts();
  /** Milliseconds until the response was over. */
  readonly whole = new DurationCounts();

  addAll(other: OpenCounts): void {
    this.requests += other.requests;
    this.providerErrors += other.providerErrors;
    this.ownErrors += other.ownErrors;
    if (other.added.total > 0) this.added.addAll(other.added);
    if (other.whole.total > 0) this.whole.addAll(other.whole);
  }

  clear(): void {
    this.requests = 0;
    this.providerErrors = 0;
    this.ownErrors = 0;
    this.added.clear();
    this.whole.clear();
  }
}

/** A day in points of one length. Only the counts and quantiles of points that are over are kept. */
export class SeriesLevel {
  readonly minutes: number;
  readonly size: number;
  readonly open = new OpenCounts();
  readonly #counts: Uint32Array;
  readonly #times: Float32Array;

  constructor(minutes: number) {
    this.minutes = minutes;
    this.size = dayMinutes / minutes + 1;
    this.#counts = new Uint32Array(this.size * 3);
    this.#times = new Float32Array(this.size * 4);
  }

  /** Files the open counts as the point with this number since 1970, and begins the next. */
  close(point: number): void {
    this.#write(point, this.open);
    this.open.clear();
  }

  /** Nothing happened in this point. */
  skip(point: number): void {
    const at = point % this.size;
    this.#counts.fill(0, at * 3, at * 3 + 3);
    this.#times.fill(0, at * 4, at * 4 + 4);
  }

  read(point: number): SeriesPoint {
    const at = point % this.size;
    const [requests = 0, providerErrors = 0, ownErrors = 0] = this.#counts.subarray(at * 3, at * 3 + 3);
    const [addedP50 = 0, addedP99 = 0, wholeP50 = 0, wholeP99 = 0] = this.#times.subarray(at * 4, at * 4 + 4);
    return { requests, providerErrors, ownErrors, addedP50, addedP99, wholeP50, wholeP99 };
  }

  #write(point: number, counts: OpenCounts): void {
    const at = point % this.size;
    const { requests, providerErrors, ownErrors } = counts;
    this.#counts.set([requests, providerErrors, ownErrors], at * 3);
    this.#times.set(quantilesOf(counts), at * 4);
  }
}

/** A value of each line of a chart. Times are milliseconds. */
export interface SeriesPoint {
  readonly requests: number;
  readonly providerErrors: number;
  readonly ownErrors: number;
  readonly addedP50: number;
  readonly addedP99: number;
  readonly wholeP50: number;
  readonly wholeP99: number;
}

export function pointOf(counts: OpenCounts): SeriesPoint {
  const { requests, providerErrors, ownErrors } = counts;
  const [addedP50, addedP99, wholeP50, wholeP99] = quantilesOf(counts);
  return { requests, providerErrors, ownErrors, addedP50, addedP99, wholeP50, wholeP99 };
}

const quantilesOf = ({ added, whole }: OpenCounts): [number, number, number, number] => [
  added.quantile(0.5),
  added.quantile(0.99),
  whole.quantile(0.5),
  whole.quantile(0.99),
];

const dayMinutes = 24 * 60;
/** Lengths of points, in minutes. */
export const seriesSteps = [1, 5, 60] as const;

/** Counts one integration, or a sum: the current minute, and the last day in three lengths of points. */
export class DaySeries {
  /** The minute that is not over. */
  readonly minute = new OpenCounts();
  readonly #levels = seriesSteps.map((minutes) => new SeriesLevel(minutes));

  /** The current minute, since 1970, is over, and `next` begins. */
  roll(current: number, next: number): void {
    for (const level of this.#levels) {
      level.open.addAll(this.minute);
      const [point, following] = [Math.floor(current / level.minutes), Math.floor(next / level.minutes)];
      if (point === following) continue;
      level.close(point);
      // After a pause, older points would show through.
      for (let at = Math.max(point + 1, following - level.size + 1); at <= following; at += 1) level.skip(at);
    }
    this.minute.clear();
  }

  /** Returns `count` points up to the one of the current minute. `minute` holds what counts in it so far. */
  points(current: number, { step, count, minute }: PointsRequest): SeriesPoint[] {
    const level = this.#levels.find(({ minutes }) => minutes === step);
    if (level === undefined) throw new Error("there is no such step");
    const last = Math.floor(current / step);
    const open = new OpenCounts();
    open.addAll(level.open);
    open.addAll(minute);
    const over = Array.from({ length: count - 1 }, (_, i) => level.read(last - count + 1 + i));
    return [...over, pointOf(open)];
  }
}

interface PointsRequest {
  readonly step: number;
  readonly count: number;
  readonly minute: OpenCounts;
}
