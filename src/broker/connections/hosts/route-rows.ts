import type { HostRoute, HostRoutes, RoutedConnections } from "./host-routes.ts";

/** An integration that a URL may mean, with its connections. */
export interface RouteRow extends HostRoute, RoutedConnections {}

/** Reads the routes of an origin in an environment. In `http://` form, `https` of the host counts too. */
export async function readRouteRows(
  routes: Pick<HostRoutes, "routesOf" | "connectionsOf">,
  environment: string,
  origin: string,
): Promise<readonly RouteRow[]> {
  const origins = origin.startsWith("http:") ? [origin.replace("http:", "https:"), origin] : [origin];
  const rows: RouteRow[] = [];
  for (const one of origins) {
    for (const route of await routes.routesOf(environment, one)) {
      if (rows.some(({ integration }) => integration === route.integration)) continue;
      const { integration } = route;
      rows.push({ ...route, ...(await routes.connectionsOf({ environment, integration, origin: one })) });
    }
  }
  return rows;
}
