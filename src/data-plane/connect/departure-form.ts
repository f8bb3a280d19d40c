import type { Fault } from "../../base/fault.ts";
import { formPage } from "../pages/connect-page.ts";
import type { PageSettings } from "../pages/page-settings.ts";
import type { RouteAnswer } from "../server/routes.ts";
import { mendableForm, wrongParams } from "./connect-form.ts";
import type { ConnectServices } from "./connect-route.ts";
import type { SessionBrowser } from "./session-browser.ts";

interface EnteredDeparture {
  readonly acting: SessionBrowser;
  readonly integration: string;
  readonly settings: PageSettings;
  /** The query with the entered values. */
  readonly given: string;
  /** Relative path from the page to the departure route. */
  readonly from: string;
}

interface RefilledForm {
  /** Names of the connection's values with problems. */
  readonly wrong: readonly string[];
  readonly page: RouteAnswer;
}

/** Returns the form with the entered values and their problems; undefined: the person can change nothing. */
export async function refilledForm(
  { choices }: ConnectServices,
  fault: Fault,
  { acting, integration, settings, given, from }: EnteredDeparture,
): Promise<RefilledForm | undefined> {
  const { session: stored, secret: browser } = acting;
  const session = stored.value;
  const choice = (await choices.of(session)).find((one) => one.integration.key === integration);
  if (choice === undefined) return undefined;
  const values = Object.fromEntries(new URLSearchParams(given));
  const { connect_session_token: sessionToken = "", return_to: returnTo = "" } = values;
  const passage = { sessionToken, returnTo, embedder: "" };
  const owner = await choices.ownerOf(session);
  const showing = { passage, session, settings, owner, browser };
  const mending = mendableForm(fault, { choice, showing, values });
  if (mending === undefined) return undefined;
  const extra = Object.fromEntries(Object.entries(values).filter(([name]) => !isOfForm(name)));
  const target = { action: `${from}${encodeURIComponent(integration)}`, extra, socketOrigin: "" };
  return { wrong: wrongParams(mending), page: formPage(choice, showing, { ...mending, ...target }) };
}

/** Returns whether the form itself sends a parameter; the others are forwarded next to them. */
const isOfForm = (name: string): boolean => formParameters.has(name) || name.startsWith("params[");

const formParameters: ReadonlySet<string> = new Set([
  "connect_session_token",
  "confirmation",
  "return_to",
  "lang",
  "theme",
]);
