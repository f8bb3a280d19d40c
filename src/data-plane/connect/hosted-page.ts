import type { IncomingHttpHeaders } from "node:http";
import { Fault } from "../../base/fault.ts";
import {
  type ConnectPageOptions,
  choosePage,
  formPage,
  framePage,
  type IntegrationChoice,
  obstacleOf,
  unavailablePage,
} from "../pages/connect-page.ts";
import { paramName } from "../pages/form-fields.ts";
import { redirect, withCookie } from "../pages/layout.ts";
import { branded, type PageSettings, settingsOf } from "../pages/page-settings.ts";
import { notAllowedPage } from "../pages/result-page.ts";
import { ownHostUrl } from "../server/own-host.ts";
import type { RouteAnswer, RouteRequest } from "../server/routes.ts";
import { prefilledForm } from "./connect-form.ts";
import type { ConnectServices } from "./connect-route.ts";
import { readPassage } from "./passage.ts";

/** The path of the pages behind a `connect_link`. */
export const hostedPath = "/connect/";

/** Shows what a session's link leads to: the choice of an integration, or the form of one. */
export async function showHostedPage(
  services: ConnectServices,
  { query, headers, rawQuery }: RouteRequest,
): Promise<RouteAnswer> {
  const { broker, choices, browsers, publicUrl } = services;
  const onOtherName = ownHostUrl(publicUrl(), headers, `${hostedPath}?${rawQuery}`);
  if (onOtherName !== undefined) return redirect(onOtherName);
  const plain = settingsOf({ rawQuery, headers });
  const token = query.text("session_token");
  if (token === undefined) return showFrame(services, headers, plain);
  const stored = await broker.sessions.withToken(token);
  const session = stored.value;
  const passage = await readPassage(broker, query, session, token);
  const all = (await choices.of(session)).map((choice) => ({ choice, obstacle: obstacleOf(choice) }));
  const { secret, setCookie } = await browsers.show(stored, headers);
  const settings = branded(plain, broker.origins.settingsOf(session.environment));
  const showing = { session, settings, owner: await choices.ownerOf(session), browser: secret, passage };
  const key = query.text("integration");
  const chosen = chosenOf(all, key);
  if (chosen === undefined) return withCookie(choicePage(all, showing, key !== undefined), setCookie);
  const { choice, obstacle } = chosen;
  if (obstacle !== undefined) return withCookie(unavailablePage(choice, showing, obstacle), setCookie);
  const values = byInput(query.map("params"));
  const form = { ...prefilledForm({ choice, showing, values }), ...formTarget(services, choice) };
  return withCookie(formPage(choice, showing, form), setCookie);
}

/** Where the form of an integration leads. */
export const formTarget = ({ publicUrl }: ConnectServices, { integration: { key } }: IntegrationChoice) => ({
  socketOrigin: new URL(publicUrl()).origin.replace(/^http/, "ws"),
  action: `../oauth/connect/${encodeURIComponent(key)}`,
  extra: {},
});

interface CheckedChoice {
  readonly choice: IntegrationChoice;
  /** Why the integration cannot be connected. */
  readonly obstacle: string | undefined;
}

/** Returns the named integration, or the only one; undefined: a person must choose. */
function chosenOf(all: readonly CheckedChoice[], key: string | undefined): CheckedChoice | undefined {
  if (key !== undefined) return all.find(({ choice }) => choice.integration.key === key);
  const offered = all.filter(({ obstacle }) => obstacle === undefined);
  const [first, second] = offered.length === 0 ? all : offered;
  return second === undefined ? first : undefined;
}

function choicePage(all: readonly CheckedChoice[], showing: ConnectPageOptions, isMissing: boolean): RouteAnswer {
  const offered = all.filter(({ obstacle }) => obstacle === undefined).map(({ choice }) => choice);
  const obstacles = offered.length > 0 ? [] : all.flatMap(({ obstacle = [] }) => obstacle);
  return choosePage(offered, showing, { obstacles, isMissing });
}

/** Returns the frame page. The frontend SDK sends the session later, from a page of an allowed origin. */
function showFrame(
  { broker: { origins } }: ConnectServices,
  { referer, "sec-fetch-dest": shownIn }: IncomingHttpHeaders,
  settings: PageSettings,
): RouteAnswer {
  const origin = referer !== undefined && URL.canParse(referer) ? new URL(referer).origin : "";
  if (origins.isKnown(origin)) return framePage(origin, settings);
  // The page's origin is not allowed yet. Only the developer of that page is told, in its frame.
  if (shownIn === "iframe") return notAllowedPage(origin, settings);
  throw new Fault("missing_auth_header", "this link is not complete");
}

/** Converts the `params` of a query to values by input name. */
const byInput = (params: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(params).map(([name, value]) => [paramName(name), value]));
