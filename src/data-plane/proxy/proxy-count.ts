import type { Metrics } from "../../base/metrics/metrics.ts";
import type { Tally, Timing } from "../../base/metrics/series.ts";

/** What is counted of requests that go to providers. */
export interface ProxyCount extends Pick<Metrics, "proxyRefused" | "proxyRefusals" | "proxyCut" | "proxyRetries"> {
  readonly added: Timing;
  readonly up: Tally;
  readonly down: Tally;
  answersOf(credentials: string): Answers;
}

/** Of requests that went with one kind of credentials. */
export interface Answers {
  add(status: number): void;
}

export function createProxyCount(metrics: Metrics): ProxyCount {
  const byKind = new Map<string, Answers>();
  const { proxyRequests, proxyRefused, proxyRefusals, proxyCut, proxyRetries } = metrics;
  return {
    proxyRefused,
    proxyRefusals,
    proxyCut,
    proxyRetries,
    added: metrics.proxyAddedSeconds.series({}),
    up: metrics.proxyBytes.series({ direction: "up" }),
    down: metrics.proxyBytes.series({ direction: "down" }),
    answersOf(credentials) {
      const known = byKind.get(credentials);
      if (known !== undefined) return known;
      const tallies: Tally[] = [];
      const made: Answers = {
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
