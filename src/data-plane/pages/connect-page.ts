import { type Html, html } from "../../base/html.ts";
import { askedOfUsers } from "../../core/connect-params.ts";
import type { ConnectSession } from "../../gen/latchkey/v1/connect_session_pb.ts";
import type { Integration } from "../../gen/latchkey/v1/integration_pb.ts";
import type { ConnectionField, Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { Answer } from "../routes.ts";
import { confirmationOf } from "../session-browser.ts";
import { type PageOptions, page } from "./layout.ts";
import { awaitSession, inWindow, tell } from "./scripts.ts";
import { askedBy, type SessionOwner } from "./session-owner.ts";

/** An integration that a person can choose. */
export interface Choice {
  readonly integration: Integration;
  readonly provider: Provider;
}

export const titleOf = ({ integration, provider }: Choice): string =>
  integration.displayName || provider.displayName || integration.key;

/** What goes on from page to page. */
export interface Passage {
  readonly sessionToken: string;
  /** The origin of the page that frames these; empty: none does. */
  readonly embedder: string;
  readonly returnTo: string;
}

interface Showing {
  readonly passage: Passage;
  readonly session: ConnectSession;
  readonly owner: SessionOwner;
  /** The secret of the browser that the page is shown to. */
  readonly browser: string;
  readonly framedBy: readonly string[];
}

const carried = ({ sessionToken, embedder, returnTo }: Passage): Record<string, string> => ({
  session_token: sessionToken,
  ...(embedder === "" ? {} : { embedder }),
  ...(returnTo === "" ? {} : { return_to: returnTo }),
});

export const hidden = (fields: Readonly<Record<string, string>>): Html[] =>
  Object.entries(fields).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`);

const closing = ({ embedder }: Passage): Html =>
  embedder === "" ? html`` : html`<button type="button" class="plain" data-close>Close</button>`;

export function choosePage(choices: readonly Choice[], { passage, owner, framedBy }: Showing): Answer {
  const links = choices.map((choice) => {
    const query = new URLSearchParams({ ...carried(passage), integration: choice.integration.key });
    return html`<li><a href="?${query.toString()}">${titleOf(choice)}</a></li>`;
  });
  const content =
    links.length === 0
      ? html`<p>There is nothing to connect to. Ask whoever sent you here.</p>`
      : html`${askedBy(owner)}<p>What do you want to connect?</p><ul class="choices">${links}</ul>`;
  return page("Connect an account", html`${content}${closing(passage)}`, {
    framedBy,
    ...(passage.embedder === "" ? {} : { script: tell, data: { to: passage.embedder } }),
  });
}

interface FormState {
  /** Why it is shown again. */
  readonly error?: string;
  readonly status?: number;
  /** What was filled in, but for secrets. */
  readonly filled?: Readonly<Record<string, string>>;
  /** Of a page that opens windows: where its WebSocket is. */
  readonly socketOrigin: string;
}

/** One integration: what is asked of a person, and the button. */
export function formPage(
  choice: Choice,
  { passage, session, owner, browser, framedBy }: Showing,
  state: FormState,
): Answer {
  const { integration, provider } = choice;
  const title = titleOf(choice);
  const kind = provider.auth.case;
  const again = session.reconnect !== undefined;
  const isRedirected = kind === "oauth2" || kind === "oauth1";
  const credentials = credentialInputs[kind ?? ""];
  if (!isRedirected && credentials === undefined) {
    const content = html`<p>${title} cannot be connected here. Ask whoever sent you here.</p>${closing(passage)}`;
    return page(`Connect ${title}`, content, { framedBy, status: 400 });
  }
  const fields = askedOfUsers(provider.connectionFields)
    .filter((field) => integration.connectionDefaults[field.name] === undefined)
    .filter((field) => session.integrationDefaults[integration.key]?.connectionConfig?.[field.name] === undefined)
    .map((field) => fieldInput(field, state.filled?.[field.name] ?? ""));
  const error = html`<p role="status" class="bad">${state.error ?? ""}</p>`;
  const button = html`<button>${again ? "Connect again" : "Connect"}</button>`;
  const { sessionToken, ...others } = passage;
  const confirmation = confirmationOf({ secret: browser, token: sessionToken, integration: integration.key });
  const form = isRedirected
    ? html`<form method="get" action="../oauth/connect/${encodeURIComponent(integration.key)}">
${hidden({ connect_session_token: sessionToken, confirmation, ...(others.returnTo === "" ? {} : { return_to: others.returnTo }) })}${fields}
<p class="quiet">You go to ${title}, sign in there, and come back here.</p>${button}</form>`
    : html`<form method="post" action="./" autocomplete="off">
${hidden({ ...carried(passage), integration: integration.key })}${fields}${credentials ?? ""}${button}</form>`;
  const isInFrame = passage.embedder !== "";
  const options: PageOptions = {
    framedBy,
    ...(state.status === undefined ? {} : { status: state.status }),
    formActions: isRedirected ? formActionsOf(provider) : [],
    ...(isInFrame
      ? {
          script: isRedirected ? inWindow : tell,
          data: { to: passage.embedder, failed: "That did not work.", done: `${title} is connected.` },
          connectsTo: ["'self'", state.socketOrigin],
        }
      : {}),
  };
  return page(`Connect ${title}`, html`${askedBy(owner, title)}${error}${form}${closing(passage)}`, options);
}

/**
 * Where a form leads that sends a browser to a provider: wherever the fields say that is. Chromium holds every redirect
 * that follows a form to this, until a page is shown.
 */
export const formActionsOf = (provider: Provider): string[] => ["https:", ...inTheOpen(provider)];

/** A provider on this machine, to develop against, has no `https`. */
function inTheOpen({ auth }: Provider): string[] {
  const { authorizationUrl = "" } = auth.case === "oauth2" || auth.case === "oauth1" ? auth.value : {};
  // Metadata name the address of a provider whose description does not.
  const { metadataUrl = "" } = auth.case === "oauth2" ? auth.value : {};
  return [authorizationUrl, metadataUrl]
    .filter((url) => url.startsWith("http:") && URL.canParse(url))
    .map((url) => new URL(url).origin);
}

function fieldInput(
  { name, title, description, example, pattern, required, defaultValue }: ConnectionField,
  filled: string,
) {
  const id = `field-${name}`;
  const rule = pattern === "" ? html`` : html` pattern="${pattern}"`;
  const must = required && defaultValue === "" ? html` required` : html``;
  const placeholder = example === "" ? html`` : html` placeholder="${example}"`;
  const help = description === "" ? html`` : html`<p class="quiet" id="${id}-help">${description}</p>`;
  const helped = description === "" ? html`` : html` aria-describedby="${id}-help"`;
  return html`<label for="${id}">${title || name}</label><input id="${id}" name="params[${name}]" value="${filled}"${placeholder}${rule}${must}${helped}>${help}`;
}

const secretInput = (name: string, label: string, rest: Html = html` required`) =>
  html`<label for="${name}">${label}</label><input id="${name}" name="${name}" type="password" autocomplete="off" spellcheck="false"${rest}>`;
const textInput = (name: string, label: string, rest: Html = html` required`) =>
  html`<label for="${name}">${label}</label><input id="${name}" name="${name}" autocomplete="off" autocapitalize="none" spellcheck="false"${rest}>`;

/** What a person types in, by the kind of credentials, in the names of the SDK's dialect. */
const credentialInputs: Readonly<Record<string, Html>> = {
  apiKey: secretInput("apiKey", "API key"),
  // Either may be empty, as some providers want it.
  basic: html`${textInput("username", "User name", html``)}${secretInput("password", "Password", html``)}`,
  oauth2Client: html`${textInput("client_id", "Client ID")}${secretInput("client_secret", "Client secret")}`,
  none: html`<p class="quiet">Nothing has to be entered.</p>`,
};

/** What the frontend SDK opens in a frame: it says next whose session it is. */
export function framePage(embedder: string): Answer {
  const content = html`<p class="quiet" role="status">One moment …</p>`;
  return page("Connect an account", content, { framedBy: [embedder], script: awaitSession, data: { to: embedder } });
}
