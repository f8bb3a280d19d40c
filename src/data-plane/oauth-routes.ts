import { Fault } from "../base/fault.ts";
import type { Outcome } from "../broker/authorize-finish.ts";
import type { Broker } from "../broker/broker.ts";
import { faultOfStore } from "../broker/store-fault.ts";
import { scopesIn } from "../core/granted-scopes.ts";
import { withParameters } from "../core/return-target.ts";
import type { BrowserCookies } from "./browser-cookie.ts";
import { type ConnectSockets, isListener } from "./connect-sockets.ts";
import { elsewhere } from "./own-host.ts";
import { redirect } from "./pages/layout.ts";
import { connectedPage, failedPage, faultPage } from "./pages/result-page.ts";
import type { Answer, Route, RouteRequest } from "./routes.ts";

interface OAuthRoutesOptions {
  readonly broker: Broker;
  readonly cookies: BrowserCookies;
  readonly sockets: ConnectSockets;
  readonly publicUrl: () => string;
}

/** The way to a provider's page and back. */
export function oauthRoutes({ broker, cookies, sockets, publicUrl }: OAuthRoutesOptions): Route[] {
  const { sessions, authorizations, outcomes } = broker;

  async function depart(request: RouteRequest): Promise<Answer> {
    const { query, headers, params, rawQuery } = request;
    const integration = params["key"] ?? "";
    const onOtherName = elsewhere(
      publicUrl(),
      headers,
      `/oauth/connect/${encodeURIComponent(integration)}?${rawQuery}`,
    );
    if (onOtherName !== undefined) return redirect(onOtherName);
    const listener = query.text("ws_client_id") ?? "";
    if (listener !== "" && !isListener(listener)) query.refuse("ws_client_id", "is not one that was given out");
    try {
      const token = query.text("connect_session_token");
      if (token === undefined) {
        throw new Fault("missing_auth_header", "a connect session is needed: public keys are not taken here");
      }
      const asked = {
        integration,
        params: query.map("params"),
        userScopes: scopesIn(query.text("user_scope") ?? ""),
        authorizationParams: authorizationParams(query.map("authorization_params")),
        listener,
        returnTo: query.text("return_to") ?? "",
      };
      if (Object.keys(query.map("credentials")).length > 0) {
        query.refuse("credentials", "are not taken in an address: an OAuth app of the connection's own is imported");
      }
      query.end();
      const { secret, setCookie } = cookies.renew(headers);
      const session = await sessions.withToken(token);
      const { location } = await authorizations.begin({ ...asked, session, browser: secret });
      sockets.begun(listener);
      return redirect(location, { "set-cookie": setCookie });
    } catch (error) {
      const { code, message } = faultOfStore(error);
      // Here alone: who shows no session makes no other process hear of it.
      sockets.tell(listener, told(integration, { by: code, message }));
      throw error;
    }
  }

  async function arrive({ rawQuery, params, headers }: RouteRequest): Promise<Answer> {
    const back = { query: rawQuery, context: params["context"] ?? "", browser: cookies.read(headers) };
    const outcome = await authorizations.finish(back);
    const { integration, title, listener, returnTo, connected, failed } = outcome;
    // Asked before it is told: who has heard what it waited for goes away.
    const to = sockets.originOf(listener);
    const message = messageOf(outcome);
    if (!sockets.tell(listener, message) && listener !== "") await outcomes.pass(listener, message);
    if (returnTo !== "") return redirect(withParameters(returnTo, returned(outcome)));
    if (connected !== undefined) return connectedPage({ title, integration, ...connected, to });
    return failedPage({ title, by: failed?.by ?? "", message: failed?.message ?? "", to });
  }

  const callback = (path: string): Route => ({
    method: "GET",
    path,
    scope: undefined,
    isPublic: true,
    browser: "page",
    isAct: true,
    faultPage,
    answer: arrive,
  });

  return [
    {
      method: "GET",
      path: "/oauth/connect/:key",
      scope: undefined,
      isPublic: true,
      browser: "page",
      isAct: true,
      faultPage,
      answer: depart,
    },
    callback("/oauth/callback"),
    callback("/oauth/callback/:context"),
  ];
}

/** The SDK writes what is to be left out as `undefined`. */
const authorizationParams = (given: Readonly<Record<string, string>>): Record<string, string | undefined> =>
  Object.fromEntries(Object.entries(given).map(([name, value]) => [name, value === "undefined" ? undefined : value]));

const told = (integration: string, { by, message }: { readonly by: string; readonly message: string }) => ({
  message_type: "error" as const,
  provider_config_key: integration,
  connection_id: "",
  error_type: by,
  error_desc: message,
});

const messageOf = ({ integration, connected, failed }: Outcome) =>
  connected === undefined
    ? told(integration, { by: failed?.by ?? "", message: failed?.message ?? "" })
    : {
        message_type: "success" as const,
        provider_config_key: integration,
        connection_id: connected.connectionId,
        is_pending: false,
      };

/** What the application learns from the address that its user comes back to: nothing that is worth stealing. */
const returned = ({ integration, connected, failed }: Outcome): Record<string, string> => ({
  provider_config_key: integration,
  ...(connected === undefined ? { error: failed?.by ?? "" } : { connection_id: connected.connectionId }),
});
