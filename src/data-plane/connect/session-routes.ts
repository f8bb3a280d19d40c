import type { Broker } from "../../broker/broker.ts";
import type { Route, RouteAnswer, RouteRequest } from "../server/routes.ts";
import { sessionJson } from "./session-json.ts";
import { sessionOf } from "./session-token.ts";

/** Routes by which a page's script reads and ends its own connect session: the session's token is the key. */
export function sessionRoutes(broker: Broker): Route[] {
  const row = { path: "/connect/session", scope: undefined, isPublic: true, browser: "script" } as const;
  return [
    { ...row, method: "GET", answer: (request) => getSession(broker, request) },
    { ...row, method: "DELETE", answer: (request) => deleteSession(broker, request) },
  ];
}

async function getSession(broker: Broker, { headers }: RouteRequest): Promise<RouteAnswer> {
  const { value } = await sessionOf(broker, { headers });
  return { status: 200, body: { data: sessionJson(value) } };
}

async function deleteSession(broker: Broker, { headers }: RouteRequest): Promise<RouteAnswer> {
  const { value } = await sessionOf(broker, { headers });
  await broker.sessions.delete({ ...value, expectedRevision: 0n }, "browser");
  return { status: 204, body: undefined };
}
