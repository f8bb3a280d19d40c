import type { Metrics } from "../base/metrics.ts";
import type { Tally, Timing } from "../base/series.ts";

/** What a door counts of its requests. */
export interface DoorCount {
  begin(): void;
  /** `since`: of what is answered. How long a tunnel is open says nothing of how long anything took. */
  end(answered: Answered): void;
}

export interface Answered {
  readonly route: string;
  readonly status: number;
  readonly since: number | undefined;
}

interface RouteCount {
  readonly seconds: Timing;
  readonly byStatus: Map<number, Tally>;
}

export function createDoorCount({ httpOpen, httpRequests, httpSeconds }: Metrics, door: string): DoorCount {
  const open = httpOpen.series({ door });
  const routes = new Map<string, RouteCount>();

  function countOf(route: string): RouteCount {
    const known = routes.get(route);
    if (known !== undefined) return known;
    const made = { seconds: httpSeconds.series({ door, route }), byStatus: new Map<number, Tally>() };
    routes.set(route, made);
    return made;
  }

  return {
    begin: () => open.add(),
    end({ route, status, since }) {
      open.add(-1);
      const { seconds, byStatus } = countOf(route);
      const tally = byStatus.get(status) ?? httpRequests.series({ door, route, status: String(status) });
      byStatus.set(status, tally);
      tally.add();
      if (since !== undefined) seconds.observe((performance.now() - since) / 1_000);
    },
  };
}
