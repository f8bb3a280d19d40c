import type { Metrics } from "../../base/metrics/metrics.ts";
import type { Tally, Timing } from "../../base/metrics/series.ts";

/** Counters of requests to providers. */
export interface ProxyCount extends Pick<Metrics, "proxyRefused" | "proxyRefusals" | "proxyCut" | "proxyRetries"> {
  readonly added: Timing;
  readonly up: Tally;
  readonly down: Tally;
  responsesOf(credentials: string): ResponseCounter;
}

/** Counts the responses to requests with one kind of credentials. */
export interface ResponseCounter {
  add(status: number): void;
}

export function createProxyCount(metrics: Metrics): ProxyCount {
  const byKind = new Map<string, ResponseCounter>();
  const { proxyRequests, proxyRefused, proxyRefusals, proxyCut, proxyRetries } = metrics;
  return {
    proxyRefused,
    proxyRefusals,
    proxyCut,
    proxyRetries,
    added: metrics.proxyAddedSeconds.series({}),
    up: metrics.proxyBytes.series({ direction: "up" }),
    down: metrics.proxyBytes.series({ direction: "down" }),
    responsesOf(credentials) {
      const known = byKind.get(credentials);
      if (known !== undefined) return known;
      const tallies: Tally[] = [];
      const made: ResponseCounter = {
        add(status) {
          const hundreds = Math.floor(status / 100);
          tallies[hundreds] ??= proxyRequests.series({ credentials, answer: `${hundreds}xx` });
          tallies[hundreds].add();
        },
      };
      byKind.set(credentials, made);
      return made;
    },
  };
}
