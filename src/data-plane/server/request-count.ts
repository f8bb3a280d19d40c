import type { Metrics } from "../../base/metrics/metrics.ts";
import type { Tally } from "../../base/metrics/series.ts";

/** What a door counts of its requests. */
export interface DoorCount {
  begin(): void;
  /** `since`: of what is answered. How long a tunnel is open says nothing of how long anything took. */
  end(answered: CountedAnswer): void;
  /** The same, for one whose requests are many. */
  of(route: string): RouteCount;
}

export interface CountedAnswer {
  readonly route: string;
  readonly status: number;
  readonly since: number | undefined;
}

export interface RouteCount {
  end(status: number, since: number | undefined): void;
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
      end(status, since) {
        open.add(-1);
        byStatus[status] ??= httpRequests.series({ door, route, status: String(status) });
        byStatus[status].add();
        if (since !== undefined) seconds.observe((performance.now() - since) / 1_000);
      },
    };
    routes.set(route, made);
    return made;
  }

  return {
    begin: () => open.add(),
    end: ({ route, status, since }) => countOf(route).end(status, since),
    of: countOf,
  };
}
