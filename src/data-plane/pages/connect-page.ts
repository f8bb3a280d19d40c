import { type Html, html } from "../../base/html.ts";
import { hasCallback } from "../../core/callback-address.ts";
import { userFields } from "../../core/dialect/connect-params.ts";
import type { ConnectSession } from "../../gen/latchkey/v1/connect_session_pb.ts";
import type { Integration } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import { confirmationOf } from "../connect/session-browser.ts";
import type { RouteAnswer } from "../server/routes.ts";
import {
  connectionInput,
  credentialInputs,
  type Entries,
  type FormField,
  inputsHtml,
  isTypedIn,
} from "./form-fields.ts";
import { type LayoutOptions, page } from "./layout.ts";
import { brandMark, chevron, marksRow, providerMark, statusMark } from "./marks.ts";
import { filled, type PageSettings, provided, settingsQuery } from "./page-settings.ts";
import { developerDetails, supportLink } from "./result-page.ts";
import { awaitSession, busySubmit, fieldProblems, filterChoices, inWindow, revealSecrets } from "./scripts.ts";
import { askedBy, askingTitle, type SessionOwner } from "./session-owner.ts";

/** An integration that a person can choose. */
export interface IntegrationChoice {
  readonly integration: Integration;
  readonly provider: Provider;
}

export const titleOf = ({ integration, provider }: IntegrationChoice, settings: PageSettings): string =>
  integration.displayName || (provider.displayName === "" ? integration.key : provided(settings, provider.displayName));

export const isRedirected = ({ provider }: IntegrationChoice): boolean => hasCallback(provider);

/** Returns why the pages cannot connect an integration, for its developer; undefined: they can. */
export function obstacleOf({ integration, provider }: IntegrationChoice): string | undefined {
  const { auth } = provider;
  if (!hasCallback(provider)) {
    return auth.case !== undefined && isTypedIn(auth.case)
      ? undefined
      : `The integration "${integration.key}" uses credentials that can only be imported.`;
  }
  if ((integration.oauth?.clientId ?? "") === "") {
    return `The integration "${integration.key}" has no client id. Set the OAuth app that is registered at the provider.`;
  }
  const isKnown =
    auth.case === "oauth2" || auth.case === "oauth1"
      ? auth.value.authorizationUrl !== "" || (auth.case === "oauth2" && auth.value.metadataUrl !== "")
      : true;
  return isKnown ? undefined : `The provider of the integration "${integration.key}" has no authorization page.`;
}

/** Values that each page passes on to the next. */
export interface Passage {
  readonly sessionToken: string;
  /** The origin of the page that frames the pages; empty: no page does. */
  readonly embedder: string;
  readonly returnTo: string;
}

export interface ConnectPageOptions {
  readonly passage: Passage;
  readonly session: ConnectSession;
  readonly owner: SessionOwner;
  /** The secret of the browser that the page is shown to. */
  readonly browser: string;
  readonly settings: PageSettings;
}

const carried = ({ sessionToken, embedder, returnTo }: Passage): Record<string, string> => ({
  session_token: sessionToken,
  ...(embedder === "" ? {} : { embedder }),
  ...(returnTo === "" ? {} : { return_to: returnTo }),
});

export const hidden = (fields: Readonly<Record<string, string>>): Html[] =>
  Object.entries(fields).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`);

/** Returns the marks of the application and of the provider. */
export const marksOf = ({ provider, integration }: IntegrationChoice, settings: PageSettings): Html =>
  marksRow([brandMark(settings.brand), providerMark(provider, titleOf({ provider, integration }, settings))]);

interface ChoiceState {
  /** Why integrations are not offered, for a developer. */
  readonly obstacles: readonly string[];
  /** Whether the link named an integration that is not among the choices. */
  readonly isMissing: boolean;
}

/** As many choices get a search. */
const searchedFrom = 8;

export function choosePage(
  choices: readonly IntegrationChoice[],
  showing: ConnectPageOptions,
  state: ChoiceState,
): RouteAnswer {
  const { passage, owner, settings } = showing;
  const { choose } = settings.texts;
  const links = choices.map((choice) => {
    const query = new URLSearchParams({
      ...carried(passage),
      ...settings.carried,
      integration: choice.integration.key,
    });
    const title = titleOf(choice, settings);
    return html`<li><a href="./?${query.toString()}">${providerMark(choice.provider, title)}<span class="name">${title}</span>${chevron}</a></li>`;
  });
  const isSearched = links.length >= searchedFrom;
  const search = isSearched
    ? html`<div class="search" data-search hidden><input type="search" aria-label="${choose.search}" placeholder="${choose.search}" autocomplete="off" spellcheck="false"></div>`
    : html``;
  const none = isSearched ? html`<p class="quiet" role="status" data-none hidden>${choose.noMatch}</p>` : html``;
  const missing = state.isMissing ? html`<p class="notice" role="alert">${choose.notOffered}</p>` : html``;
  const content =
    links.length === 0
      ? html`${missing}<p class="lead">${choose.nothing}</p>${developerDetails(settings, state.obstacles)}${supportLink(settings)}`
      : html`${askedBy(owner, settings)}${missing}<h2>${choose.question}</h2>${search}<ul class="choices">${links}</ul>${none}`;
  return page(askingTitle(settings, choose.title, choose.wants), content, {
    settings,
    marks: links.length === 0 ? marksRow([statusMark("over")]) : marksRow([brandMark(settings.brand)]),
    embedder: passage.embedder,
    ...(state.isMissing ? { status: 404, headers: { "latchkey-error": "unknown_provider_config" } } : {}),
    scripts: isSearched ? [filterChoices] : [],
  });
}

/** Returns the page in place of the form of an integration that cannot work. */
export function unavailablePage(choice: IntegrationChoice, showing: ConnectPageOptions, obstacle: string): RouteAnswer {
  const { passage, settings } = showing;
  const { form } = settings.texts;
  const title = titleOf(choice, settings);
  const content = html`<p class="notice" role="alert">${filled(form.unavailable, { title })}</p>
${developerDetails(settings, [obstacle])}${supportLink(settings)}`;
  return page(filled(form.title, { title }), content, {
    settings,
    marks: marksOf(choice, settings),
    embedder: passage.embedder,
    status: 400,
    headers: { "latchkey-error": "integration_misconfigured" },
  });
}

/** The state of a shown form. */
export interface FormState extends Entries {
  /** Why the form is shown again; empty: the form is shown for the first time. */
  readonly error: string;
  /** The code of `error`. */
  readonly code?: string;
  readonly status: number;
  /** Where the frame's script may open a WebSocket. */
  readonly socketOrigin: string;
  /** Where the form of a redirected integration is sent, relative to the page. */
  readonly action: string;
  /** Parameters that are sent next to the fields. */
  readonly extra: Readonly<Record<string, string>>;
}

/** Returns the inputs of an integration's form: the connection's values that are not set yet, and the credentials. */
export function fieldsOf(
  choice: IntegrationChoice,
  { session, settings }: Pick<ConnectPageOptions, "session" | "settings">,
): FormField[] {
  const { integration, provider } = choice;
  const fixed = session.integrationDefaults[integration.key]?.connectionConfig;
  const context = { provider, title: titleOf(choice, settings), settings };
  const fields = userFields(provider.connectionFields)
    .filter((field) => integration.connectionDefaults[field.name] === undefined)
    .filter((field) => fixed?.[field.name] === undefined)
    .map((field) => connectionInput(field, context));
  return isRedirected(choice) ? fields : [...fields, ...(credentialInputs(provider.auth.case, settings) ?? [])];
}

/** Returns the page of one integration, with its form. */
export function formPage(choice: IntegrationChoice, showing: ConnectPageOptions, state: FormState): RouteAnswer {
  const { passage, session, owner, settings } = showing;
  const { form: texts } = settings.texts;
  const title = titleOf(choice, settings);
  const redirected = isRedirected(choice);
  const isInFrame = passage.embedder !== "";
  const fields = fieldsOf(choice, showing);
  const inputs = inputsHtml(fields, state, { settings, isInFrame });
  const error = html`<p role="${state.error === "" ? "status" : "alert"}" class="notice" data-status>${state.error}</p>`;
  const button = html`<button>${session.reconnect === undefined ? texts.connect : texts.connectAgain}</button>`;
  const nothing = !redirected && fields.length === 0 ? html`<p class="quiet lead">${texts.nothingToEnter}</p>` : html``;
  const below = guide(choice, showing, fields);
  const form = redirected
    ? html`<form method="get" action="${state.action}">
${hidden(departing(choice, showing, state.extra))}${inputs}${below}${button}
<p class="quiet lead">${filled(texts.leaving, { title })}</p></form>`
    : html`<form method="post" action="./${settingsQuery(settings, isInFrame ? { embedder: passage.embedder } : {})}" autocomplete="off">
${hidden({ ...carried(passage), integration: choice.integration.key })}${inputs}${below}${nothing}${button}</form>`;
  const options: LayoutOptions = {
    settings,
    marks: marksOf(choice, settings),
    embedder: passage.embedder,
    status: state.status,
    ...(state.code === undefined ? {} : { headers: { "latchkey-error": state.code } }),
    formActions: redirected ? formActionsOf(choice.provider) : [],
    scripts: [
      ...(fields.length === 0 ? [] : [fieldProblems]),
      ...(fields.some(({ secret }) => secret) ? [revealSecrets] : []),
      ...(isInFrame && redirected ? [inWindow] : []),
      busySubmit,
    ],
    ...(isInFrame && redirected
      ? { data: windowTexts(showing, title), connectsTo: ["'self'", state.socketOrigin] }
      : {}),
  };
  const ending = isInFrame && redirected ? windowEnd(settings) : html``;
  const content = html`<div data-begin>${askedBy(owner, settings, title)}${error}${form}</div>${ending}`;
  return page(askingTitle(settings, texts.title, texts.wants, title), content, options);
}

/** Returns the texts of the script that opens the provider's page in a window. */
function windowTexts({ settings: { texts } }: ConnectPageOptions, title: string): Record<string, string> {
  const { form, problems, result, faults, failures } = texts;
  return {
    failed: form.failed,
    done: filled(result.connected, { title }),
    blocked: form.windowBlocked,
    opened: form.windowOpened,
    check: problems.check,
    failures: JSON.stringify({ ...faults, ...failures }),
  };
}

/** Returns what the frame shows in place of the form once its window has connected. */
const windowEnd = ({ texts: { result } }: PageSettings): Html =>
  html`<div data-end hidden>${marksRow([statusMark("good")])}<button type="button" data-close>${result.done}</button></div>`;

function departing(
  { integration: { key } }: IntegrationChoice,
  { passage, settings, browser }: ConnectPageOptions,
  extra: FormState["extra"],
) {
  const { sessionToken, returnTo } = passage;
  return {
    connect_session_token: sessionToken,
    confirmation: confirmationOf({ secret: browser, token: sessionToken, integration: key }),
    ...(returnTo === "" ? {} : { return_to: returnTo }),
    ...settings.carried,
    ...extra,
  };
}

/** Returns a link to the application's own guide, or for an API key to the provider's page about it. */
function guide(
  choice: IntegrationChoice,
  { session, settings }: ConnectPageOptions,
  fields: readonly FormField[],
): Html {
  const own = session.overrides[choice.integration.key]?.docsConnect ?? "";
  const { form } = settings.texts;
  const asksKey = fields.some(({ name }) => name === "apiKey");
  const url = own === "" && asksKey ? webUrl(choice.provider.consoleUrl || choice.provider.docsUrl) : own;
  const text = asksKey ? form.findKey : filled(form.guide, { title: titleOf(choice, settings) });
  return url === ""
    ? html``
    : html`<p class="quiet"><a href="${url}" target="_blank" rel="noopener noreferrer">${text}</a></p>`;
}

const webUrl = (text: string): string => (/^https?:/i.test(text) && URL.canParse(text) ? text : "");

/**
 * Returns where a form that sends a browser to a provider may lead; the fields decide which host. Chromium applies this
 * policy to every redirect that follows a form, until a page is shown.
 */
export const formActionsOf = (provider: Provider): string[] => ["https:", ...plainOrigins(provider)];

/** Returns the origin of a provider without TLS: one on this machine, for development. */
function plainOrigins({ auth }: Provider): string[] {
  const url = auth.case === "oauth2" || auth.case === "oauth1" ? auth.value.authorizationUrl : "";
  return URL.canParse(url) && url.startsWith("http:") ? [new URL(url).origin] : [];
}

/** Returns the page that the frontend SDK opens in a frame, to which the SDK then sends the session. */
export function framePage(embedder: string, settings: PageSettings): RouteAnswer {
  const { choose, form } = settings.texts;
  const content = html`<p class="quiet lead" role="status">${form.wait}</p>`;
  return page(choose.title, content, { settings, embedder, scripts: [awaitSession] });
}
