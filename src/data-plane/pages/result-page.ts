import type { Fault } from "../../base/fault.ts";
import { type Html, html } from "../../base/html.ts";
import type { RouteAnswer } from "../server/routes.ts";
import { page } from "./layout.ts";
import { marksRow, statusMark } from "./marks.ts";
import { filled, filledHtml, type PageSettings } from "./page-settings.ts";
import { closing, tell } from "./scripts.ts";
import { en } from "./texts/en.ts";

/** A result for a person, and for the page that waits. */
interface ResultPageOptions {
  readonly settings: PageSettings;
  /** The origin of the page that opened this one; undefined: no page gets a message. */
  readonly to?: string | undefined;
  /** The origin of the page that frames this one. */
  readonly embedder?: string;
}

interface ConnectedPage extends ResultPageOptions {
  /** The integration's name for people. */
  readonly title: string;
  readonly integration: string;
  readonly connectionId: string;
  readonly missingScopes: readonly string[];
  /** The name of the account; empty: not known. */
  readonly account: string;
}

export function connectedPage(connected: ConnectedPage): RouteAnswer {
  const { title, integration, connectionId, missingScopes, account, settings, to, embedder = "" } = connected;
  const { result } = settings.texts;
  const missing =
    missingScopes.length === 0
      ? html``
      : html`<div class="notice quiet"><p>${result.partly}</p>
<ul>${missingScopes.map((scope) => html`<li><code>${scope}</code></li>`)}</ul>
<p>${result.allowMore}</p></div>`;
  const name = html`<strong>${account}</strong>`;
  const whose = account === "" ? html`` : html`<p class="lead">${filledHtml(result.account, { account: name })}</p>`;
  const payload = { providerConfigKey: integration, connectionId, isPending: false };
  const waits = to ?? (embedder === "" ? undefined : embedder);
  const ways = waysOn(settings, { waits, close: result.done });
  const content = html`${whose}${missing}<p class="quiet lead" role="status">${result.closeWindow}</p>${ways}`;
  return page(filled(result.connected, { title }), content, {
    settings,
    embedder,
    marks: marksRow([statusMark("good")]),
    ...messageTo(waits, { type: "connect", payload }),
  });
}

interface FailedPage extends ResultPageOptions {
  readonly title: string;
  readonly by: string;
  /** In English, for the page that waits. */
  readonly message: string;
  /** The address at which the person may try again. */
  readonly again?: string | undefined;
}

export function failedPage({ title, by, message, settings, to, again }: FailedPage): RouteAnswer {
  const { result, failures, faults } = settings.texts;
  const payload = { errorType: by, errorMessage: message };
  const text = textOf(failures, by) ?? faults.other;
  const next = by === "denied" ? result.deniedNext : by === "session_over" ? result.newLink : result.failedNext;
  const details = message === textOf(en.failures, by) ? [] : [message];
  const content = html`<p class="lead" role="alert">${text}</p><p class="quiet lead">${next}</p>
${waysOn(settings, { waits: to, again, close: to === undefined ? undefined : settings.texts.form.close })}${supportLink(settings)}${developerDetails(settings, details)}${errorCode(settings, by)}`;
  const heading = filled(result.notConnectedTitle, { title });
  return page(heading, content, {
    settings,
    status: by === "denied" ? 200 : 400,
    marks: marksRow([statusMark(by === "session_over" ? "over" : "bad")]),
    ...messageTo(to, { type: "error", payload }),
  });
}

interface WaysOn {
  /** The origin of the page that waits, in the frame or behind the window. */
  readonly waits?: string | undefined;
  readonly again?: string | undefined;
  /** Text of the button that closes the window. A frame has a button in its corner as well. */
  readonly close?: string | undefined;
}

/** Returns the buttons of an end page: another try, the way back to the application, or the window's end. */
function waysOn(settings: PageSettings, { waits, again, close }: WaysOn): Html {
  const { texts, brand } = settings;
  const application = brand.name || (brand.home === "" ? "" : new URL(brand.home).host);
  const retry = again === undefined ? [] : [{ url: again, text: texts.result.tryAgain }];
  const back =
    brand.home === "" || waits !== undefined
      ? []
      : [{ url: brand.home, text: filled(texts.result.backTo, { application }) }];
  const buttons = [...retry, ...back].map(
    ({ url, text }, i) => html`<a class="${i === 0 ? "button" : "button plain"}" href="${url}">${text}</a>`,
  );
  const end =
    waits === undefined || close === undefined
      ? html``
      : html`<button type="button"${buttons.length > 0 ? html` class="plain"` : ""} data-close>${close}</button>`;
  return html`${buttons}${end}`;
}

/** Returns the link to the application's support, if it has one. */
export const supportLink = ({ texts, brand }: PageSettings): Html =>
  brand.supportUrl === ""
    ? html``
    : html`<p class="foot quiet"><a href="${brand.supportUrl}" target="_blank" rel="noopener noreferrer">${texts.result.support}</a></p>`;

const errorCode = ({ texts }: PageSettings, code: string): Html =>
  code === ""
    ? html``
    : html`<p class="code">${filledHtml(texts.result.code, { code: html`<code>${code}</code>` })}</p>`;

/**
 * Returns the page that leads back to the application. A redirect would fail: browsers apply the policy of the page
 * with the form to later redirects, and a provider's consent page allows this origin only.
 */
export function returnPage(target: string, settings: PageSettings): RouteAnswer {
  const { returning, goOn, returningTitle } = settings.texts.result;
  const content = html`<p class="quiet lead" role="status">${filled(returning, { host: new URL(target).host })}</p>
<a class="button" href="${target}">${goOn}</a>`;
  return page(returningTitle, content, { settings, refreshTo: target });
}

/** Faults that need no details. */
const plain: ReadonlySet<string> = new Set([
  "unknown_session",
  "other_browser",
  "unknown_authorization",
  "missing_auth_header",
]);

/** Faults of links that worked before, or work elsewhere. */
const over: ReadonlySet<string> = new Set(["unknown_session", "unknown_authorization", "other_browser"]);

/** Returns the page about a fault, for a person. */
export function faultPage(fault: Fault, { settings, embedder = "" }: ResultPageOptions): RouteAnswer {
  const { code, message, status, mistakes, retryAfterSeconds } = fault;
  const { faults, result } = settings.texts;
  const details = [sentence(message), ...mistakes.map(({ path, message: wrong }) => `${path.join(".")}: ${wrong}`)];
  const next = code === "unknown_session" || code === "other_browser" ? result.newLink : result.stoppedNext;
  const content = html`<p class="lead" role="alert">${textOf(faults, code) ?? faults.other}</p>
<p class="quiet lead">${next}</p>
${waysOn(settings, { waits: embedder === "" ? undefined : embedder })}${supportLink(settings)}${developerDetails(settings, plain.has(code) ? [] : details)}${errorCode(settings, code)}`;
  const headers = {
    "latchkey-error": code,
    ...(retryAfterSeconds === undefined ? {} : { "retry-after": String(retryAfterSeconds) }),
  };
  const isOver = over.has(code);
  return page(isOver ? result.linkOverTitle : result.stoppedTitle, content, {
    settings,
    status,
    headers,
    embedder,
    marks: marksRow([statusMark(isOver ? "over" : "bad")]),
  });
}

/** Returns the page in the frame of a page whose origin is not allowed: only what its developer must set. */
export function notAllowedPage(origin: string, settings: PageSettings): RouteAnswer {
  const { faults, result } = settings.texts;
  const lines = [
    `The page that opened this frame is of ${origin === "" ? "an unknown origin: its Referrer-Policy hides it" : origin}.`,
    "Add its origin to allowed_origins of the session's environment (LATCHKEY_ALLOWED_ORIGINS for the environment dev).",
  ];
  const content = html`<p class="notice" role="alert">${faults.origin_not_allowed}</p>
<p class="quiet">${result.details}:</p><div lang="en">${lines.map((line) => html`<p class="quiet">${line}</p>`)}</div>`;
  return page(result.stoppedTitle, content, {
    settings,
    status: 403,
    marks: marksRow([statusMark("bad")]),
    headers: { "latchkey-error": "origin_not_allowed" },
    framedBy: origin === "" ? [] : [origin],
  });
}

/** Returns details for developers, in English, below the text for the end user. */
export const developerDetails = ({ texts }: PageSettings, lines: readonly string[]): Html =>
  lines.length === 0
    ? html``
    : html`<details><summary>${texts.result.details}</summary><div lang="en">${lines.map((line) => html`<p class="quiet">${line}</p>`)}</div></details>`;

const textOf = (texts: Readonly<Record<string, string>>, name: string): string | undefined =>
  Object.hasOwn(texts, name) ? texts[name] : undefined;

const messageTo = (to: string | undefined, message: object) =>
  to === undefined ? {} : { scripts: [tell, closing], data: { to, message: JSON.stringify(message) } };

const sentence = (message: string): string => `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
