import type { Metrics } from "../base/metrics.ts";
import type { Tally, Timing } from "../base/series.ts";

/** What is counted of requests that go to providers. */
export interface ProxyCount extends Pick<Metrics, "proxyRefused" | "proxyRefusals" | "proxyCut" | "proxyRetries"> {
  readonly added: Timing;
  readonly up: Tally;
  readonly down: Tally;
  answered(credentials: string, status: number): void;
}

export function createProxyCount(metrics: Metrics): ProxyCount {
  const byKind = new Map<string, Tally[]>();
  const { proxyRequests, proxyRefused, proxyRefusals, proxyCut, proxyRetries } = metrics;
  return {
    proxyRefused,
    proxyRefusals,
    proxyCut,
    proxyRetries,
    added: metrics.proxyAddedSeconds.series({}),
    up: metrics.proxyBytes.series({ direction: "up" }),
    down: metrics.proxyBytes.series({ direction: "down" }),
    answered(credentials, status) {
      const hundreds = Math.floor(status / 100);
      const tallies = byKind.get(credentials) ?? [];
      byKind.set(credentials, tallies);
      const tally = tallies[hundreds] ?? proxyRequests.series({ credentials, answer: `${hundreds}xx` });
      tallies[hundreds] = tally;
      tally.add();
    },
  };
}
