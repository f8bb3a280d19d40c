import type { Metrics } from "../../base/metrics/metrics.ts";
import type { Tally, Timing } from "../../base/metrics/series.ts";
import type { World } from "../../base/world.ts";
import { DaySeries, OpenCounts, type Outcome, outcomes, type SeriesPoint } from "./day-series.ts";

/** Counts requests by integration and minute, for the last 24 hours of this process. */
export interface TrafficCounts {
  /** Returns the counter of an integration, which must exist: beyond the first hundred, all share one. */
  of(environment: string, integration: string): IntegrationCount;
  /** Does the same for an integration that may not exist: it never gets a counter of its own. */
  find(environment: string, integration: string): IntegrationCount;
  read(request: SeriesQuery): SeriesAnswer;
}

/** Counts the requests of one integration. */
export interface IntegrationCount {
  /** Label of the integration in metrics; many integrations may share one. */
  readonly label: string;
  /** `nowMs` is of the monotonic clock. `wholeMs`: undefined for a response without end. */
  add(nowMs: number, ended: RequestEnd): void;
}

export interface RequestEnd {
  readonly outcome: Outcome;
  /** 0 if the caller left first. */
  readonly status: number;
  /** Undefined if the request was never sent. */
  readonly addedMs: number | undefined;
  readonly wholeMs: number | undefined;
}

export interface SeriesQuery {
  readonly environment: string;
  /** Empty: the sum and the integrations with the most requests. */
  readonly integration: string;
  readonly sinceMs: number;
  /** Minutes of a point. */
  readonly step: number;
  readonly maxSeries: number;
}

export interface SeriesAnswer {
  readonly startMs: number;
  readonly countedSinceMs: number;
  readonly total: readonly SeriesPoint[] | undefined;
  readonly series: readonly { readonly integration: string | undefined; readonly points: readonly SeriesPoint[] }[];
}

/** About 50 KB each, from the first request on. */
const maxIntegrations = 100;
const maxEnvironments = 50;
const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;
/** No key of an integration can have parentheses. */
const otherLabel = "(other)";

export function createTrafficCounts({ now, metrics }: Pick<World, "now" | "metrics">): TrafficCounts {
  const environments = new Map<string, EnvironmentCounts>();
  const clock = { minute: Math.floor(now() / minuteMs), endsAt: 0 };
  const countedSinceMs = now();
  let named = 0;
  setEnd(performance.now());

  /** The wall clock may have been set back: the current minute is then longer. */
  function setEnd(nowMs: number): void {
    clock.endsAt = nowMs + minuteMs - (now() % minuteMs);
  }

  function roll(nowMs: number): void {
    const next = Math.floor(now() / minuteMs);
    if (next > clock.minute) {
      for (const one of environments.values()) one.roll(clock.minute, next);
      clock.minute = next;
    }
    setEnd(nowMs);
  }

  function environmentOf(name: string): EnvironmentCounts | undefined {
    const known = environments.get(name);
    if (known !== undefined || environments.size === maxEnvironments) return known;
    const made = new EnvironmentCounts();
    environments.set(name, made);
    return made;
  }

  function make(environment: string, integration: string | undefined): Counter {
    return new Counter({ clock, roll, metrics, environment, integration });
  }

  function otherOf(environment: string): IntegrationCount {
    const all = environmentOf(environment);
    if (all === undefined) return notCounted;
    all.other ??= make(environment, undefined);
    return all.other;
  }

  return {
    of(environment, integration) {
      const all = environmentOf(environment);
      const known = all?.integrations.get(integration);
      if (known !== undefined) return known;
      if (all === undefined || named === maxIntegrations) return otherOf(environment);
      named += 1;
      const made = make(environment, integration);
      all.integrations.set(integration, made);
      return made;
    },
    find: (environment, integration) =>
      environments.get(environment)?.integrations.get(integration) ?? otherOf(environment),
    read({ environment, integration, sinceMs, step, maxSeries }) {
      roll(performance.now());
      const last = Math.floor(clock.minute / step);
      const earliest = Math.floor(Math.max(sinceMs, now() - dayMs) / minuteMs / step);
      const count = Math.max(1, last - earliest + 1);
      const startMs = (last - count + 1) * step * minuteMs;
      const all = environments.get(environment);
      const shared = { startMs, countedSinceMs };
      const pointsOf = (series: DaySeries, minute: OpenCounts) => series.points(clock.minute, { step, count, minute });
      if (integration !== "") {
        const one = all?.integrations.get(integration);
        const series = one === undefined ? [] : [{ integration, points: pointsOf(one.series, one.series.minute) }];
        return { ...shared, total: undefined, series };
      }
      const found = (all?.counters() ?? []).map((one) => ({
        integration: one.integration,
        points: pointsOf(one.series, one.series.minute),
      }));
      const busy = found.filter(({ points }) => requestsIn(points) > 0);
      busy.sort((one, other) => requestsIn(other.points) - requestsIn(one.points));
      const total = all ?? new EnvironmentCounts();
      return { ...shared, total: pointsOf(total.total, total.minute()), series: busy.slice(0, maxSeries) };
    },
  };
}

const requestsIn = (points: readonly SeriesPoint[]): number => points.reduce((sum, { requests }) => sum + requests, 0);

const notCounted: IntegrationCount = { label: otherLabel, add() {} };

/** The counters of an environment. Its sum is made once a minute from those of the integrations. */
class EnvironmentCounts {
  readonly integrations = new Map<string, Counter>();
  other: Counter | undefined;
  readonly total = new DaySeries();

  counters(): Counter[] {
    return [...this.integrations.values(), ...(this.other === undefined ? [] : [this.other])];
  }

  /** Returns the sum of the current minute. */
  minute(): OpenCounts {
    const sum = new OpenCounts();
    for (const { series } of this.counters()) sum.addAll(series.minute);
    return sum;
  }

  roll(current: number, next: number): void {
    this.total.minute.addAll(this.minute());
    this.total.roll(current, next);
    for (const { series } of this.counters()) series.roll(current, next);
  }
}

interface CounterOptions {
  readonly clock: { readonly endsAt: number };
  readonly roll: (nowMs: number) => void;
  readonly metrics: Metrics;
  readonly environment: string;
  readonly integration: string | undefined;
}

class Counter implements IntegrationCount {
  readonly integration: string | undefined;
  readonly label: string;
  readonly series = new DaySeries();
  readonly #options: CounterOptions;
  readonly #seconds: Timing;
  readonly #tallies: Tally[] = [];

  constructor(options: CounterOptions) {
    const { environment, integration, metrics } = options;
    this.integration = integration;
    this.label = integration ?? otherLabel;
    this.#options = options;
    this.#seconds = metrics.integrationSeconds.series({ environment, integration: this.label });
  }

  add(nowMs: number, { outcome, status, addedMs, wholeMs }: RequestEnd): void {
    const { clock, roll } = this.#options;
    if (nowMs >= clock.endsAt) roll(nowMs);
    const { minute } = this.series;
    minute.requests += 1;
    if (outcome === outcomes.providerError) minute.providerErrors += 1;
    else if (outcome === outcomes.ownError) minute.ownErrors += 1;
    if (addedMs !== undefined) minute.added.add(addedMs);
    if (wholeMs !== undefined) {
      minute.whole.add(wholeMs);
      this.#seconds.observe(wholeMs / 1_000);
    }
    this.#tallyOf(outcome === outcomes.ownError ? 0 : Math.floor(status / 100) + 1).add();
  }

  /** 0: answered by Latchkey; 1: the caller left; then the classes of the provider's statuses. */
  #tallyOf(kind: number): Tally {
    const known = this.#tallies[kind];
    if (known !== undefined) return known;
    const { environment, metrics } = this.#options;
    const answer = kind === 0 ? "latchkey" : kind === 1 ? "none" : `${kind - 1}xx`;
    const made = metrics.integrationRequests.series({ environment, integration: this.label, answer });
    this.#tallies[kind] = made;
    return made;
  }
}
