import type { IncomingHttpHeaders } from "node:http";
import { Fault } from "../../base/fault.ts";
import { otherBrowser, type StoredSession } from "../../broker/connect/sessions.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";
import { scopesIn } from "../../core/granted-scopes.ts";
import type { ConnectSession } from "../../gen/latchkey/v1/connect_session_pb.ts";
import { confirmPage } from "../pages/confirm-page.ts";
import { redirect, withCookie } from "../pages/layout.ts";
import { branded, type PageSettings, settingsOf } from "../pages/page-settings.ts";
import { faultPage } from "../pages/result-page.ts";
import { ownHostUrl } from "../server/own-host.ts";
import { type QueryReader, readQuery } from "../server/query.ts";
import type { RouteAnswer, RouteRequest } from "../server/routes.ts";
import type { ConnectServices } from "./connect-route.ts";
import { refilledForm } from "./departure-form.ts";
import { isListener, isVouchedFor } from "./listener-id.ts";
import { navigationOf } from "./navigation.ts";
import { allowOrigin } from "./page-origin.ts";
import { confirmationOf, isConfirmation, type SessionBrowser } from "./session-browser.ts";
import { errorMessage } from "./socket-message.ts";

/** Sends a browser to a provider's page. A link from another site gets our own page first. */
export async function depart(services: ConnectServices, request: RouteRequest): Promise<RouteAnswer> {
  const { headers, params, rawQuery, query } = request;
  const integration = params["key"] ?? "";
  const path = `/oauth/connect/${encodeURIComponent(integration)}`;
  const onOtherName = ownHostUrl(services.publicUrl(), headers, `${path}?${rawQuery}`);
  if (onOtherName !== undefined) return redirect(onOtherName);
  return leave(services, { integration, query, headers, given: rawQuery });
}

/** Sends the browser of a person who has agreed on our page. */
export async function confirmDeparture(
  services: ConnectServices,
  { headers, params, body }: RouteRequest,
): Promise<RouteAnswer> {
  const given = new URLSearchParams(body as Record<string, string>).toString();
  const integration = params["key"] ?? "";
  return leave(services, { integration, query: readQuery(given), headers, given, isConfirmed: true });
}

interface DepartureRequest {
  readonly integration: string;
  readonly query: QueryReader;
  readonly headers: IncomingHttpHeaders;
  /** The text that the query was read from. */
  readonly given: string;
  /** The form of our page sent the request. */
  readonly isConfirmed?: true;
}

/** The parameters of a departure. */
interface Departure {
  readonly token: string;
  readonly confirmation: string;
  /** The id of the page that waits for the result; empty: no page waits. */
  readonly listener: string;
  readonly authorization: {
    readonly params: Readonly<Record<string, string>>;
    readonly userScopes: string[];
    readonly authorizationParams: Record<string, string | undefined>;
    readonly returnTo: string;
  };
}

async function leave(services: ConnectServices, request: DepartureRequest): Promise<RouteAnswer> {
  const { sockets } = services;
  const { integration, query, headers, given, isConfirmed } = request;
  let settings = settingsOf({ rawQuery: given, headers });
  let acting: SessionBrowser | undefined;
  const listener = query.text("ws_client_id") ?? "";
  if (listener !== "" && !isListener(listener))
    query.refuse("ws_client_id", "must be the ws_client_id that the WebSocket sent");
  try {
    const departure = readDeparture(query, listener);
    const stored = await services.broker.sessions.withToken(departure.token);
    settings = branded(settings, services.broker.origins.settingsOf(stored.value.environment));
    requireAllowedListener(services, stored.value, listener);
    if (needsConfirmation(services, { request, departure, session: stored.value })) {
      sockets.nameBy(listener, stored.value.id);
      return await askToConfirm(services, stored, { token: departure.token, integration, headers, given, settings });
    }
    const { bind, ...starting } = services.browsers.begin(stored, headers);
    acting = starting;
    const { session, secret: browser, setCookie } = starting;
    const { lang: language = "", theme = "" } = settings.carried;
    const sessionToken = departure.token;
    const begun = {
      ...departure.authorization,
      integration,
      listener,
      session,
      sessionToken,
      browser,
      language,
      theme,
    };
    const { location } = await services.broker.authorizations.begin(begun);
    // Not before: a page that is told of a failure may close this window before the response brings its cookie.
    await bind();
    sockets.nameBy(listener, stored.value.id);
    return redirect(location, { "set-cookie": setCookie });
  } catch (error) {
    const fault = faultOfStore(error);
    const { code, message } = fault;
    const from = isConfirmed ? "../" : "./";
    const form = acting && (await refilledForm(services, fault, { acting, integration, settings, given, from }));
    // Only in this process: a request without a session must not reach other processes.
    const isHeard = sockets.send(listener, errorMessage(integration, { code, message, fields: form?.wrong ?? [] }));
    if (acting === undefined || code === "internal") throw error;
    // Where a page waits, the person continues there. The session is bound to the cookie: without the cookie a
    // second attempt would be refused.
    const shown = form === undefined || isHeard ? faultPage(fault, { settings }) : form.page;
    return withCookie(shown, acting.setCookie);
  }
}

function readDeparture(query: QueryReader, listener: string): Departure {
  const token = query.text("connect_session_token");
  if (token === undefined) {
    throw new Fault("missing_auth_header", "send connect_session_token; public keys are not supported");
  }
  const confirmation = query.text("confirmation") ?? "";
  const authorization = {
    params: query.map("params"),
    userScopes: scopesIn(query.text("user_scope") ?? ""),
    authorizationParams: authorizationParams(query.map("authorization_params")),
    returnTo: query.text("return_to") ?? "",
  };
  if (Object.keys(query.map("credentials")).length > 0) {
    query.refuse("credentials", "must not be sent in a URL: import a connection that has its own OAuth app");
  }
  query.end();
  return { token, confirmation, listener, authorization };
}

/** The SDK writes `undefined` for a parameter to leave out. */
const authorizationParams = (given: Readonly<Record<string, string>>): Record<string, string | undefined> =>
  Object.fromEntries(Object.entries(given).map(([name, value]) => [name, value === "undefined" ? undefined : value]));

interface SessionDeparture {
  readonly request: DepartureRequest;
  readonly departure: Departure;
  readonly session: ConnectSession;
}

/**
 * Returns whether a person must agree on our page first: the browser comes by a link of another site. Throws
 * `other_browser` for the form of our page, when the page was shown to another browser.
 */
function needsConfirmation(services: ConnectServices, { request, departure, session }: SessionDeparture): boolean {
  const { integration, headers, isConfirmed } = request;
  const { token, confirmation, listener } = departure;
  const secret = services.cookies.read(headers);
  const isProven = isConfirmation(confirmation, { token, integration, ...(secret !== undefined && { secret }) });
  if (isConfirmed && !isProven) throw otherBrowser();
  const { isBrowser, isFromOwnPage } = navigationOf(headers);
  return isBrowser && !isFromOwnPage && !isProven && !isVouched(services, session, { listener, secret });
}

interface Vouching {
  readonly listener: string;
  readonly secret: string | undefined;
}

/** Returns whether a page of the application waits for this very browser, and has sent the browser here. */
function isVouched(
  { broker: { origins }, sockets }: ConnectServices,
  { environment }: ConnectSession,
  { listener, secret }: Vouching,
): boolean {
  const live = sockets.originOf(listener);
  const allowed = origins.of(environment);
  const here = live !== undefined && origins.isAllowed(live, environment) ? [live] : [];
  return isVouchedFor(listener, { secret, origins: [...allowed, ...here] });
}

/** A connected page proves that some environment allows its origin; this checks the session's own environment. */
function requireAllowedListener(
  { broker: { origins }, sockets }: ConnectServices,
  { environment }: ConnectSession,
  listener: string,
): void {
  const origin = sockets.originOf(listener);
  if (origin === undefined || !origins.isKnown(origin) || origins.isAllowed(origin, environment)) return;
  throw new Fault("origin_not_allowed", allowOrigin(origin), { metadata: { environment, origin } });
}

interface ConfirmationRequest {
  readonly token: string;
  readonly integration: string;
  readonly headers: IncomingHttpHeaders;
  readonly given: string;
  readonly settings: PageSettings;
}

/** Returns our page, on which the person agrees. */
async function askToConfirm(
  { choices, browsers }: ConnectServices,
  stored: StoredSession,
  { token, integration, headers, given, settings }: ConfirmationRequest,
): Promise<RouteAnswer> {
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
