import type { IncomingHttpHeaders } from "node:http";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import type { AuthorizationOutcome } from "../../broker/connect/authorize/finish.ts";
import { otherBrowser, type StoredSession } from "../../broker/connect/sessions.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";
import { scopesIn } from "../../core/granted-scopes.ts";
import { withParameters } from "../../core/return-target.ts";
import type { ConnectSession } from "../../gen/latchkey/v1/connect_session_pb.ts";
import { confirmPage } from "../pages/confirm-page.ts";
import { formPage } from "../pages/connect-page.ts";
import { redirect, withCookie } from "../pages/layout.ts";
import { type PageSettings, pageSettings, provided, settingsOf } from "../pages/page-settings.ts";
import { connectedPage, failedPage, faultPage, returnPage } from "../pages/result-page.ts";
import { elsewhere } from "../server/own-host.ts";
import { type QueryReader, readQuery } from "../server/query.ts";
import type { FaultedRequest, Route, RouteAnswer, RouteRequest } from "../server/routes.ts";
import type { BrowserCookies } from "./browser-cookie.ts";
import type { ConnectChoices } from "./connect-choice.ts";
import { mendableForm, wrongParams } from "./connect-form.ts";
import type { ConnectSockets } from "./connect-sockets.ts";
import { isListener, isVouchedFor } from "./listener-id.ts";
import { navigationOf } from "./navigation.ts";
import { confirmationOf, isConfirmation, type SessionBrowser, type SessionBrowsers } from "./session-browser.ts";

interface OAuthRoutesOptions {
  readonly broker: Broker;
  readonly choices: ConnectChoices;
  readonly browsers: SessionBrowsers;
  readonly cookies: BrowserCookies;
  readonly sockets: ConnectSockets;
  readonly publicUrl: () => string;
}

/** Routes to a provider's page and back. */
export function oauthRoutes(options: OAuthRoutesOptions): Route[] {
  const { broker, choices, browsers, cookies, sockets, publicUrl } = options;
  const { sessions, authorizations, outcomes, origins } = broker;

  /** Sends a browser to a provider's page. A link from another site gets our own page first. */
  async function depart({ headers, params, rawQuery, query }: RouteRequest): Promise<RouteAnswer> {
    const integration = params["key"] ?? "";
    const path = `/oauth/connect/${encodeURIComponent(integration)}`;
    const onOtherName = elsewhere(publicUrl(), headers, `${path}?${rawQuery}`);
    if (onOtherName !== undefined) return redirect(onOtherName);
    return leave({ integration, query, headers, given: rawQuery });
  }

  /** The person has agreed on our page. */
  async function confirm({ headers, params, body }: RouteRequest): Promise<RouteAnswer> {
    const given = new URLSearchParams(body as Record<string, string>).toString();
    return leave({ integration: params["key"] ?? "", query: readQuery(given), headers, given, isConfirmed: true });
  }

  interface Leaving {
    readonly integration: string;
    readonly query: QueryReader;
    readonly headers: IncomingHttpHeaders;
    /** The text that the query was read from. */
    readonly given: string;
    /** The form of our page sent the request. */
    readonly isConfirmed?: true;
  }

  async function leave({ integration, query, headers, given, isConfirmed }: Leaving): Promise<RouteAnswer> {
    const settings = settingsOf({ rawQuery: given, headers });
    let acting: SessionBrowser | undefined;
    const listener = query.text("ws_client_id") ?? "";
    if (listener !== "" && !isListener(listener)) query.refuse("ws_client_id", "is not one that was given out");
    try {
      const token = query.text("connect_session_token");
      if (token === undefined) {
        throw new Fault("missing_auth_header", "a connect session is needed: public keys are not taken here");
      }
      const confirmation = query.text("confirmation") ?? "";
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
      const stored = await sessions.withToken(token);
      requireListener(stored.value, listener);
      const own = cookies.read(headers);
      const isProven = isConfirmation(confirmation, { token, integration, ...(own !== undefined && { secret: own }) });
      const { isBrowser, isFromOwnPage } = navigationOf(headers);
      if (isConfirmed && !isProven) throw otherBrowser();
      if (isBrowser && !isFromOwnPage && !isProven && !isVouched(stored.value, { listener, secret: own })) {
        sockets.begun(listener, stored.value.id);
        return await confirmed(stored, { token, integration, headers, given, settings });
      }
      acting = await browsers.act(stored, headers);
      const { session, secret, setCookie } = acting;
      const { lang: language = "", theme = "" } = settings.carried;
      const { location } = await authorizations.begin({ ...asked, session, browser: secret, language, theme });
      sockets.begun(listener, stored.value.id);
      return redirect(location, { "set-cookie": setCookie });
    } catch (error) {
      const fault = faultOfStore(error);
      const { code, message } = fault;
      const form =
        acting && (await formAgain(fault, { acting, integration, settings, given, from: isConfirmed ? "../" : "./" }));
      // Only in this process: a request without a session must not reach other processes.
      const isHeard = sockets.tell(listener, told(integration, { by: code, message, fields: form?.wrong ?? [] }));
      if (acting === undefined || code === "internal") throw error;
      // Where a page waits, the person continues there. The session is bound to the cookie: without the cookie a
      // second attempt would be refused.
      const shown = form === undefined || isHeard ? faultPage(fault, { settings }) : form.page;
      return withCookie(shown, acting.setCookie);
    }
  }

  interface Entering {
    readonly acting: SessionBrowser;
    readonly integration: string;
    readonly settings: PageSettings;
    readonly given: string;
    /** Relative path from the page to the departure route. */
    readonly from: string;
  }

  /** Returns the form with the entered values and their problems; undefined: the person can change nothing. */
  async function formAgain(fault: Fault, { acting, integration, settings, given, from }: Entering) {
    const { session: stored, secret: browser } = acting;
    const session = stored.value;
    const choice = (await choices.of(session)).find((one) => one.integration.key === integration);
    if (choice === undefined) return undefined;
    const values = Object.fromEntries(new URLSearchParams(given));
    const { connect_session_token: sessionToken = "", return_to: returnTo = "" } = values;
    const passage = { sessionToken, returnTo, embedder: "" };
    const owner = await choices.ownerOf(session);
    const showing = { passage, session, settings, owner, browser, framedBy: [] };
    const mending = mendableForm(fault, { choice, showing, values });
    if (mending === undefined) return undefined;
    const extra = Object.fromEntries(Object.entries(values).filter(([name]) => !isOfForm(name)));
    const place = { action: `${from}${encodeURIComponent(integration)}`, extra, socketOrigin: "" };
    return {
      wrong: wrongParams(mending),
      page: formPage(choice, showing, { ...mending, ...place }),
    };
  }

  /** A connected page proves that some environment allows its origin; this checks the session's own environment. */
  function requireListener({ environment }: ConnectSession, listener: string): void {
    const origin = sockets.originOf(listener);
    if (origin === undefined || !origins.isKnown(origin) || origins.isAllowed(origin, environment)) return;
    const message = `pages of ${origin} are not let in: add this origin to the allowed_origins of the environment`;
    throw new Fault("origin_not_allowed", message, { metadata: { environment, origin } });
  }

  /** Returns whether a page of the application waits for this very browser, and has sent the browser here. */
  function isVouched({ environment }: ConnectSession, { listener, secret }: Vouching): boolean {
    const live = sockets.originOf(listener);
    const allowed = origins.of(environment);
    const here = live !== undefined && origins.isAllowed(live, environment) ? [live] : [];
    return isVouchedFor(listener, { secret, origins: [...allowed, ...here] });
  }

  async function confirmed(stored: StoredSession, { token, integration, headers, given, settings }: Confirming) {
    const choice = (await choices.of(stored.value)).find((one) => one.integration.key === integration);
    if (choice === undefined) {
      throw new Fault("unknown_provider_config", `this connect session is not for the integration "${integration}"`);
    }
    const { secret, setCookie } = await browsers.show(stored, headers);
    const confirmation = confirmationOf({ secret, token, integration });
    const fields = { ...Object.fromEntries(new URLSearchParams(given)), confirmation };
    const owner = await choices.ownerOf(stored.value);
    return withCookie(confirmPage(choice, { owner, settings, fields }), setCookie);
  }

  async function arrive({ rawQuery, params, headers }: RouteRequest): Promise<RouteAnswer> {
    const back = { query: rawQuery, context: params["context"] ?? "", browser: cookies.read(headers) };
    const outcome = await authorizations.finish(back);
    const { integration, listener, returnTo, connected, failed, language, theme } = outcome;
    const settings = pageSettings({ lang: language, theme, headers });
    const title = provided(settings, outcome.title);
    // Read before the message is sent: a page leaves once it has its result.
    const to = sockets.originOf(listener);
    const message = messageOf(outcome);
    if (!sockets.tell(listener, message) && listener !== "") await outcomes.pass(listener, message);
    if (returnTo !== "") return returnPage(withParameters(returnTo, returned(outcome)), settings);
    if (connected !== undefined) return connectedPage({ settings, title, integration, ...connected, to });
    return failedPage({ settings, title, by: failed?.by ?? "", message: failed?.message ?? "", to });
  }

  const callback = (path: string): Route => ({
    method: "GET",
    path,
    scope: undefined,
    isPublic: true,
    browser: "page",
    isAct: true,
    faultPage: faultPageOf,
    answer: arrive,
  });

  const departure = { scope: undefined, isPublic: true, browser: "page", faultPage: faultPageOf } as const;

  return [
    { ...departure, method: "GET", path: "/oauth/connect/:key", isAct: true, answer: depart },
    { ...departure, method: "POST", path: "/oauth/connect/:key/confirm", takesBody: "form", answer: confirm },
    callback("/oauth/callback"),
    callback("/oauth/callback/:context"),
  ];
}

const faultPageOf = (fault: Fault, request: FaultedRequest): RouteAnswer =>
  faultPage(fault, { settings: settingsOf(request) });

/** Parameters that the form itself sends; the others are forwarded next to them. */
const isOfForm = (name: string): boolean => formParameters.has(name) || name.startsWith("params[");
const formParameters: ReadonlySet<string> = new Set([
  "connect_session_token",
  "confirmation",
  "return_to",
  "lang",
  "theme",
]);

interface Vouching {
  readonly listener: string;
  readonly secret: string | undefined;
}

interface Confirming {
  readonly token: string;
  readonly integration: string;
  readonly headers: IncomingHttpHeaders;
  readonly given: string;
  readonly settings: PageSettings;
}

/** The SDK writes `undefined` for a parameter to leave out. */
const authorizationParams = (given: Readonly<Record<string, string>>): Record<string, string | undefined> =>
  Object.fromEntries(Object.entries(given).map(([name, value]) => [name, value === "undefined" ? undefined : value]));

interface TellingError {
  readonly by: string;
  readonly message: string;
  readonly fields?: readonly string[];
}

const told = (integration: string, { by, message, fields = [] }: TellingError) => ({
  message_type: "error" as const,
  provider_config_key: integration,
  connection_id: "",
  error_type: by,
  error_desc: message,
  ...(fields.length === 0 ? {} : { fields: [...fields] }),
});

const messageOf = ({ integration, connected, failed }: AuthorizationOutcome) =>
  connected === undefined
    ? told(integration, { by: failed?.by ?? "", message: failed?.message ?? "" })
    : {
        message_type: "success" as const,
        provider_config_key: integration,
        connection_id: connected.connectionId,
        is_pending: false,
      };

/** Parameters of the return address for the application: they hold nothing worth stealing. */
const returned = ({ integration, connected, failed }: AuthorizationOutcome): Record<string, string> => ({
  provider_config_key: integration,
  ...(connected === undefined ? { error: failed?.by ?? "" } : { connection_id: connected.connectionId }),
});
