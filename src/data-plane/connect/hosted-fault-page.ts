import type { Fault } from "../../base/fault.ts";
import { errorBody } from "../../base/http/error-body.ts";
import { branded, type PageSettings, settingsOf } from "../pages/page-settings.ts";
import { faultPage } from "../pages/result-page.ts";
import type { FaultedRequest, RouteAnswer } from "../server/routes.ts";
import type { ConnectServices } from "./connect-route.ts";

/** Returns the page about a fault, which a page of an allowed origin may frame. */
export function hostedFaultPage(
  { broker: { origins } }: ConnectServices,
  fault: Fault,
  { headers, rawQuery }: FaultedRequest,
): RouteAnswer {
  const query = new URLSearchParams(rawQuery);
  const embedder = query.get("embedder") ?? "";
  // An origin of another environment is allowed as well, but must not frame pages of this one.
  const isAllowed = fault.code !== "origin_not_allowed" && origins.isKnown(embedder);
  const settings = withHome(
    branded(settingsOf({ rawQuery, headers }), origins.soleSettings()),
    query.get("return_to") ?? "",
    origins.isKnown,
  );
  return faultPage(fault, { settings, ...(isAllowed && { embedder }) });
}

/** Leads back to the requested address, if it is on an allowed origin. */
function withHome(settings: PageSettings, home: string, isKnown: (origin: string) => boolean): PageSettings {
  const isAllowed = URL.canParse(home) && isKnown(new URL(home).origin);
  return isAllowed ? { ...settings, brand: { ...settings.brand, home } } : settings;
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
