import { redirect } from "../pages/layout.ts";
import { noSuchRoute, type RouteAnswer, type RouteRequest } from "../server/routes.ts";
import type { ConnectRoute, ConnectServices } from "./connect-route.ts";
import { hostedFaultPage, rootFault } from "./hosted-fault-page.ts";
import { submitHostedForm } from "./hosted-form.ts";
import { hostedPath, showHostedPage } from "./hosted-page.ts";

const row = { browser: "page", faultPage: hostedFaultPage } as const;

/** The pages behind a `connect_link`: they need no frontend, and no script. */
export const hostedRoutes: readonly ConnectRoute[] = [
  { ...row, method: "GET", path: hostedPath, handle: showHostedPage },
  { ...row, method: "POST", path: hostedPath, takesBody: "form", handle: submitHostedForm },
  { ...row, method: "GET", path: "/connect", handle: toHostedPage },
  { ...row, method: "GET", path: "/", faultPage: rootFault, handle: toHostedPageFromRoot },
];

/** Keeps the referrer across a redirect, so that the framed page still learns which page frames it. */
const keepingReferrer = { "referrer-policy": "strict-origin-when-cross-origin" };

export function toHostedPage(_: ConnectServices, { rawQuery }: RouteRequest): RouteAnswer {
  return redirect(`connect/?${rawQuery}`, keepingReferrer);
}

/** Redirects a frame whose address lacks `/connect`. Programs still get "not found". */
function toHostedPageFromRoot(services: ConnectServices, request: RouteRequest): RouteAnswer {
  if (isForFrame(request)) return toHostedPage(services, request);
  throw noSuchRoute();
}

/** Whether a request for the root comes from a frame of the frontend SDK. */
export const isForFrame = ({ headers, query }: RouteRequest): boolean =>
  headers["sec-fetch-dest"] === "iframe" || query.text("apiURL") !== undefined;
