import type { AuthorizationOutcome } from "../../broker/connect/authorize/finish.ts";
import { withParameters } from "../../core/return-target.ts";
import { pageSettings, provided } from "../pages/page-settings.ts";
import { connectedPage, failedPage, returnPage } from "../pages/result-page.ts";
import type { RouteAnswer, RouteRequest } from "../server/routes.ts";
import type { ConnectServices } from "./connect-route.ts";
import { outcomeMessage } from "./socket-message.ts";

/** Finishes the authorization of a browser that comes back from a provider. */
export async function arrive(
  { broker, cookies, sockets }: ConnectServices,
  { rawQuery, params, headers }: RouteRequest,
): Promise<RouteAnswer> {
  const back = { query: rawQuery, context: params["context"] ?? "", browser: cookies.read(headers) };
  const outcome = await broker.authorizations.finish(back);
  const { integration, listener, returnTo, connected, failed, language, theme } = outcome;
  const settings = pageSettings({ lang: language, theme, headers });
  const title = provided(settings, outcome.title);
  // Read before the message is sent: a page leaves once it has its result.
  const to = sockets.originOf(listener);
  const message = outcomeMessage(outcome);
  if (!sockets.send(listener, message) && listener !== "") await broker.outcomes.pass(listener, message);
  if (returnTo !== "") return returnPage(withParameters(returnTo, returnParameters(outcome)), settings);
  if (connected !== undefined) return connectedPage({ settings, title, integration, ...connected, to });
  return failedPage({ settings, title, by: failed?.by ?? "", message: failed?.message ?? "", to });
}

/** Parameters of the return address for the application: they hold nothing worth stealing. */
const returnParameters = ({ integration, connected, failed }: AuthorizationOutcome): Record<string, string> => ({
  provider_config_key: integration,
  ...(connected === undefined ? { error: failed?.by ?? "" } : { connection_id: connected.connectionId }),
});
