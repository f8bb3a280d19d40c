import type { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import type { FaultedRequest, Route, RouteAnswer, RouteRequest } from "../server/routes.ts";
import type { BrowserCookies } from "./browser-cookie.ts";
import type { ConnectChoices } from "./connect-choice.ts";
import type { ConnectSockets } from "./connect-sockets.ts";
import type { SessionBrowsers } from "./session-browser.ts";

/** Dependencies of the routes of a connect session. */
export interface ConnectServices {
  readonly broker: Broker;
  readonly choices: ConnectChoices;
  readonly browsers: SessionBrowsers;
  readonly cookies: BrowserCookies;
  readonly sockets: ConnectSockets;
  /** The URL under which browsers and providers reach Latchkey. */
  readonly publicUrl: () => string;
}

/** A row of a table of routes for browsers, which need no key. */
export interface ConnectRoute extends Pick<Route, "method" | "path" | "changesState" | "takesBody"> {
  readonly browser: NonNullable<Route["browser"]>;
  /** Makes the page about a fault; undefined: the fault is answered as JSON. */
  readonly faultPage?: (services: ConnectServices, fault: Fault, request: FaultedRequest) => RouteAnswer;
  readonly handle: (services: ConnectServices, request: RouteRequest) => Promise<RouteAnswer> | RouteAnswer;
}

/** Binds a table to its services, for a listener. */
export const bindConnectRoutes = (services: ConnectServices, table: readonly ConnectRoute[]): Route[] =>
  table.map(({ handle, faultPage, ...row }) => ({
    ...row,
    scope: undefined,
    isPublic: true,
    ...(faultPage !== undefined && { faultPage: (fault, request) => faultPage(services, fault, request) }),
    answer: (request) => handle(services, request),
  }));
