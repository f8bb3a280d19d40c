import type { Fault } from "../../base/fault.ts";
import { errorBody } from "../../base/http/error-body.ts";
import { branded, settingsOf } from "../pages/page-settings.ts";
import { faultPage } from "../pages/result-page.ts";
import type { FaultedRequest, RouteAnswer } from "../server/routes.ts";
import type { ConnectServices } from "./connect-route.ts";

/** Returns the page about a fault, which a page of an allowed origin may frame. */
export function hostedFaultPage(
  { broker: { origins } }: ConnectServices,
  fault: Fault,
  { headers, rawQuery }: FaultedRequest,
): RouteAnswer {
  const embedder = new URLSearchParams(rawQuery).get("embedder") ?? "";
  // An origin of another environment is allowed as well, but must not frame pages of this one.
  const isAllowed = fault.code !== "origin_not_allowed" && origins.isKnown(embedder);
  const settings = branded(settingsOf({ rawQuery, headers }), origins.soleSettings());
  return faultPage(fault, { settings, ...(isAllowed && { embedder }) });
}

/** Returns the page for a person, and JSON for a program. */
export function rootFault(services: ConnectServices, fault: Fault, request: FaultedRequest): RouteAnswer {
  if (/text\/html/i.test(request.headers.accept ?? "")) return hostedFaultPage(services, fault, request);
  return {
    status: fault.status,
    body: errorBody(fault),
    headers: { "content-type": "application/json; charset=utf-8" },
  };
}
