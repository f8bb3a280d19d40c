import type { AuthorizationOutcome } from "../../broker/connect/authorize/outcome.ts";
import { withParameters } from "../../core/return-target.ts";
import { branded, type PageSettings, pageSettings, provided } from "../pages/page-settings.ts";
import { connectedPage, failedPage, returnPage } from "../pages/result-page.ts";
import { chosenIn, valuesPage } from "../pages/values-page.ts";
import type { RouteAnswer, RouteRequest } from "../server/routes.ts";
import type { ConnectServices } from "./connect-route.ts";
import { outcomeMessage } from "./socket-message.ts";

/** Finishes the authorization of a browser that comes back from a provider. */
export async function arrive(services: ConnectServices, request: RouteRequest): Promise<RouteAnswer> {
  const { broker, cookies } = services;
  const { rawQuery, params, headers } = request;
  const back = { query: rawQuery, context: params["context"] ?? "", browser: cookies.read(headers) };
  const outcome = await broker.authorizations.finish(back);
  return show(services, request, { outcome, chooseAt: outcome.redirectContext === "" ? "./choose" : "../choose" });
}

/** Stores what a person has chosen for a new connection. */
export async function choose(services: ConnectServices, request: RouteRequest): Promise<RouteAnswer> {
  const { broker, cookies } = services;
  const { body, headers } = request;
  const token = typeof body["token"] === "string" ? body["token"] : "";
  const chosen = { token, browser: cookies.read(headers), options: chosenIn(body) };
  return show(services, request, {
    outcome: await broker.authorizations.choosePage.choose(chosen),
    chooseAt: "./choose",
  });
}

interface ShownOutcome {
  readonly outcome: AuthorizationOutcome;
  /** The address at which a person chooses, relative to the page's. */
  readonly chooseAt: string;
}

/** Shows an outcome, and tells the page that waits. Until the person has chosen, that page learns nothing. */
async function show(
  { broker, sockets }: ConnectServices,
  { headers }: Pick<RouteRequest, "headers">,
  { outcome, chooseAt: action }: ShownOutcome,
): Promise<RouteAnswer> {
  const { environment, integration, listener, returnTo, connected, failed, choosing, language, theme } = outcome;
  const settings = branded(pageSettings({ lang: language, theme, headers }), broker.origins.settingsOf(environment));
  const title = provided(settings, outcome.title);
  if (choosing !== undefined) return valuesPage({ settings, title, ...choosing, action });
  // Read before the message is sent: a page leaves once it has its result.
  const to = sockets.originOf(listener);
  const message = outcomeMessage(outcome);
  if (!sockets.send(listener, message) && listener !== "") await broker.outcomes.pass(listener, message);
  if (returnTo !== "") return returnPage(withParameters(returnTo, returnParameters(outcome)), settings);
  if (connected !== undefined) return connectedPage({ settings, title, integration, ...connected, to });
  const again = listener === "" ? retryUrl(outcome, settings) : undefined;
  return failedPage({ settings, title, by: failed?.by ?? "", message: failed?.message ?? "", to, again });
}

/** Returns the address, relative to the callback, at which the same browser may try again. */
function retryUrl({ integration, sessionToken, redirectContext }: AuthorizationOutcome, settings: PageSettings) {
  if (sessionToken === "") return undefined;
  const query = new URLSearchParams({ session_token: sessionToken, integration, ...settings.carried });
  return `${redirectContext === "" ? "../" : "../../"}connect/?${query}`;
}

/** Parameters of the return address for the application: they hold nothing worth stealing. */
const returnParameters = ({ integration, connected, failed }: AuthorizationOutcome): Record<string, string> => ({
  provider_config_key: integration,
  ...(connected === undefined ? { error: failed?.by ?? "" } : { connection_id: connected.connectionId }),
});
