import type { Fault } from "../../base/fault.ts";
import { branded, settingsOf } from "../pages/page-settings.ts";
import { faultPage } from "../pages/result-page.ts";
import type { FaultedRequest, RouteAnswer } from "../server/routes.ts";
import { arrive, choose } from "./arrival.ts";
import type { ConnectRoute, ConnectServices } from "./connect-route.ts";
import { confirmDeparture, depart } from "./departure.ts";

const row = { browser: "page", faultPage: faultPageOf } as const;

/** Routes to a provider's page and back. */
export const oauthRoutes: readonly ConnectRoute[] = [
  { ...row, method: "GET", path: "/oauth/connect/:key", changesState: true, handle: depart },
  { ...row, method: "POST", path: "/oauth/connect/:key/confirm", takesBody: "form", handle: confirmDeparture },
  { ...row, method: "POST", path: "/oauth/choose", takesBody: "form", handle: choose },
  { ...row, method: "GET", path: "/oauth/callback", changesState: true, handle: arrive },
  { ...row, method: "GET", path: "/oauth/callback/:context", changesState: true, handle: arrive },
];

function faultPageOf({ broker }: ConnectServices, fault: Fault, request: FaultedRequest): RouteAnswer {
  return faultPage(fault, { settings: branded(settingsOf(request), broker.origins.soleSettings()) });
}
