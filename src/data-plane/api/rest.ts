import type { Broker } from "../../broker/broker.ts";
import { apiAuthRoutes } from "../connect/api-auth-routes.ts";
import { createBrowserCookies } from "../connect/browser-cookie.ts";
import { createConnectChoices } from "../connect/connect-choice.ts";
import { bindConnectRoutes, type ConnectServices } from "../connect/connect-route.ts";
import type { ConnectSockets } from "../connect/connect-sockets.ts";
import { hostedRoutes, isForFrame, toHostedPage } from "../connect/hosted-routes.ts";
import { oauthRoutes } from "../connect/oauth-routes.ts";
import { createSessionBrowsers } from "../connect/session-browser.ts";
import { sessionRoutes } from "../connect/session-routes.ts";
import { docRoutes, greet } from "../docs/doc-routes.ts";
import { forwardProxyRoute } from "../proxy/forwarding/forward-proxy-route.ts";
import type { Route } from "../server/routes.ts";
import { signedAnswerRoutes } from "./approvals/approval-routes.ts";
import { bindRoutes } from "./json-route.ts";
import { jsonRoutes } from "./json-routes.ts";
import { webhookRoutes } from "./webhook-routes.ts";

interface RestOptions {
  readonly broker: Broker;
  readonly sockets: ConnectSockets;
  /** The URL under which browsers and providers reach Latchkey. */
  readonly publicUrl: () => string;
  /** Address of the forward proxy; undefined: it is off. */
  readonly proxyAddress: () => string | undefined;
}

/** The JSON routes and the pages, over the methods of the broker. The first match answers. */
export function restRoutes({ broker, sockets, publicUrl, proxyAddress }: RestOptions): Route[] {
  const cookies = createBrowserCookies(publicUrl);
  const browsers = createSessionBrowsers({ sessions: broker.sessions, cookies });
  const choices = createConnectChoices(broker);
  const services = { broker, choices, browsers, cookies, sockets, publicUrl };
  return [
    {
      method: "GET",
      path: "/health",
      scope: undefined,
      isPublic: true,
      answer: () => ({ status: 200, body: { result: "ok" } }),
    },
    ...bindRoutes(broker, jsonRoutes),
    forwardProxyRoute({ address: proxyAddress, certificates: () => broker.authorities.known() }),
    ...docRoutes,
    greetingRoute(services),
    ...bindConnectRoutes(services, [...sessionRoutes, ...hostedRoutes, ...oauthRoutes, ...apiAuthRoutes]),
    ...webhookRoutes({ webhooks: broker.webhooks, publicUrl }),
    ...signedAnswerRoutes(broker),
  ];
}

/** The root of the data listener. The public listener, which strangers reach, says nothing of itself. */
const greetingRoute = (services: ConnectServices): Route => ({
  method: "GET",
  path: "/",
  scope: undefined,
  browser: "page",
  answer: (request) => (isForFrame(request) ? toHostedPage(services, request) : greet(request)),
});
