import type { RouteAnswer, RouteRequest } from "../server/routes.ts";
import type { ConnectRoute, ConnectServices } from "./connect-route.ts";
import { sessionJson } from "./session-json.ts";
import { sessionOf } from "./session-token.ts";

/** Routes by which a page's script reads and ends its own connect session: the session's token is the key. */
export const sessionRoutes: readonly ConnectRoute[] = [
  { method: "GET", path: "/connect/session", browser: "script", handle: getSession },
  { method: "DELETE", path: "/connect/session", browser: "script", handle: deleteSession },
];

async function getSession({ broker }: ConnectServices, { headers }: RouteRequest): Promise<RouteAnswer> {
  const { value } = await sessionOf(broker, { headers });
  const accent = broker.origins.settingsOf(value.environment)?.branding?.accentColor ?? "";
  return { status: 200, body: { data: sessionJson(value, accent) } };
}

async function deleteSession({ broker }: ConnectServices, { headers }: RouteRequest): Promise<RouteAnswer> {
  const { value } = await sessionOf(broker, { headers });
  await broker.sessions.delete({ ...value, expectedRevision: 0n }, "browser");
  return { status: 204, body: undefined };
}
