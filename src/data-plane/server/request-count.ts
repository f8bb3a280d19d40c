import type { Metrics } from "../../base/metrics/metrics.ts";
import type { Tally } from "../../base/metrics/series.ts";

/** Counts the requests of a listener. */
export interface DoorCount {
  begin(): void;
  /** Without `since`, no duration is measured: that of a tunnel says nothing about Latchkey. */
  end(response: CountedResponse): void;
  /** Returns the counters of a route, to look them up once for many requests. */
  of(route: string): RouteCount;
}

export interface CountedResponse {
  readonly route: string;
  readonly status: number;
  readonly since: number | undefined;
}

export interface RouteCount {
  /** `now`: the monotonic time. */
  end(status: number, since: number | undefined, now: number): void;
}

export function createDoorCount({ httpOpen, httpRequests, httpSeconds }: Metrics, door: string): DoorCount {
  const open = httpOpen.series({ door });
  const routes = new Map<string, RouteCount>();

  function countOf(route: string): RouteCount {
    const known = routes.get(route);
    if (known !== undefined) return known;
    const seconds = httpSeconds.series({ door, route });
    const byStatus: Tally[] = [];
    const made: RouteCount = {
      end(status, since, now) {
        open.add(-1);
        byStatus[status] ??= httpRequests.series({ door, route, status: String(status) });
        byStatus[status].add();
        if (since !== undefined) seconds.observe((now - since) / 1_000);
      },
    };
    routes.set(route, made);
    return made;
  }

  return {
    begin: () => open.add(),
    end: ({ route, status, since }) => countOf(route).end(status, since, performance.now()),
    of: countOf,
  };
}
