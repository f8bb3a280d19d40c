import { Fault } from "../../base/fault.ts";
import { branded, settingsOf } from "../pages/page-settings.ts";
import { faultPage } from "../pages/result-page.ts";
import type { FaultedRequest, RouteAnswer, RouteRequest } from "../server/routes.ts";
import { arrive, choose } from "./arrival.ts";
import type { ConnectRoute, ConnectServices } from "./connect-route.ts";
import { confirmDeparture, depart } from "./departure.ts";

const row = { browser: "page", faultPage: faultPageOf } as const;

/** Routes to a provider's page and back. */
/** Authorization servers of MCP servers read the document of a client at its client ID. */
const clientDocument = {
  method: "GET",
  path: "/oauth/clients/:provider",
  browser: "page",
  handle: showClient,
} as const;

export const oauthRoutes: readonly ConnectRoute[] = [
  { ...row, method: "GET", path: "/oauth/connect/:key", changesState: true, handle: depart },
  { ...row, method: "POST", path: "/oauth/connect/:key/confirm", takesBody: "form", handle: confirmDeparture },
  { ...row, method: "POST", path: "/oauth/choose", takesBody: "form", handle: choose },
  { ...row, method: "GET", path: "/oauth/callback", changesState: true, handle: arrive },
  { ...row, method: "GET", path: "/oauth/callback/:context", changesState: true, handle: arrive },
  clientDocument,
];

async function showClient({ broker }: ConnectServices, { params }: RouteRequest): Promise<RouteAnswer> {
  const document = await broker.mcp.documentOf(params["provider"] ?? "");
  if (document === undefined) throw new Fault("not_found", "there is no such client");
  return { status: 200, body: document };
}

function faultPageOf({ broker }: ConnectServices, fault: Fault, request: FaultedRequest): RouteAnswer {
  return faultPage(fault, { settings: branded(settingsOf(request), broker.origins.soleSettings()) });
}
