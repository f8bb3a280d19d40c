import { createRecentCache } from "../base/caches/recent-cache.ts";
import type { HostRoutes } from "../broker/connections/hosts/host-routes.ts";
import { type RouteRow, readRouteRows } from "../broker/connections/hosts/route-rows.ts";

/** What a host stands for in an environment. */
export interface RouteTable {
  readonly environment: string;
  readonly rows: readonly TableRow[];
  /** Time of the monotonic clock until which the table is new. */
  readonly freshUntilMs: number;
}

export type TableRow = Omit<RouteRow, "isForAll">;

/** The tables of the hosts in use, in memory. */
export interface RouteTables {
  /** Returns the table of an origin; a promise if it must be read. In `http://` form, `https` of the host counts too. */
  of(environment: string, origin: string): RouteTable | Promise<RouteTable>;
}

/** A table is read again after this time, while it is still used. */
const freshMs = 400;
/** What has changed counts after this time at the latest. */
const keptMs = 1_000;
const mostTables = 1_024;

export function createRouteTables(routes: Pick<HostRoutes, "routesOf" | "connectionsOf">): RouteTables {
  const known = createRecentCache<RouteTable>(mostTables);
  const underWay = new Map<string, Promise<RouteTable>>();

  async function read(environment: string, origin: string): Promise<RouteTable> {
    const beganMs = performance.now();
    const rows = await readRouteRows(routes, environment, origin);
    return { environment, rows, freshUntilMs: beganMs + freshMs };
  }

  function refresh(name: string, environment: string, origin: string): Promise<RouteTable> {
    const shared = underWay.get(name);
    if (shared !== undefined) return shared;
    const reading = read(environment, origin)
      .then((table) => {
        known.set(name, table);
        return table;
      })
      .finally(() => underWay.delete(name));
    underWay.set(name, reading);
    return reading;
  }

  return {
    of(environment, origin) {
      const name = `${environment}\0${origin}`;
      const table = known.get(name);
      const nowMs = performance.now();
      if (table === undefined || nowMs > table.freshUntilMs + keptMs - freshMs)
        return refresh(name, environment, origin);
      // Requests do not wait for the next table. If it cannot be read, the first one without a table says why.
      if (nowMs > table.freshUntilMs) refresh(name, environment, origin).catch(() => {});
      return table;
    },
  };
}
