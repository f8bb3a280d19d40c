import type { Fault } from "../../base/fault.ts";
import { type Html, html } from "../../base/html.ts";
import type { RouteAnswer } from "../server/routes.ts";
import { page } from "./layout.ts";
import { filled, type PageSettings } from "./page-settings.ts";
import { tell } from "./scripts.ts";
import { en } from "./texts/en.ts";

/** A result for a person, and for the page that waits. */
interface ResultPageOptions {
  readonly settings: PageSettings;
  /** The origin of the page that opened or frames this one; undefined: no page gets a message. */
  readonly to?: string | undefined;
  readonly framedBy?: readonly string[];
}

interface ConnectedPage extends ResultPageOptions {
  /** The integration's name for people. */
  readonly title: string;
  readonly integration: string;
  readonly connectionId: string;
  readonly missingScopes: readonly string[];
}

export function connectedPage(connected: ConnectedPage): RouteAnswer {
  const { title, integration, connectionId, missingScopes, settings, to, framedBy = [] } = connected;
  const { result } = settings.texts;
  const missing =
    missingScopes.length === 0
      ? html``
      : html`<p>${result.partly}</p>
<ul>${missingScopes.map((scope) => html`<li><code>${scope}</code></li>`)}</ul>
<p class="quiet">${result.allowMore}</p>`;
  const payload = { providerConfigKey: integration, connectionId, isPending: false };
  const content = html`<p class="good" role="status">${filled(result.connected, { title })}</p>${missing}
<p class="quiet">${result.closeWindow}</p>${closing(settings, to)}`;
  return page(result.connectedTitle, content, { settings, framedBy, ...messageTo(to, { type: "connect", payload }) });
}

interface FailedPage extends ResultPageOptions {
  readonly title: string;
  readonly by: string;
  /** In English, for the page that waits. */
  readonly message: string;
}

export function failedPage({ title, by, message, settings, to, framedBy = [] }: FailedPage): RouteAnswer {
  const { result, failures, faults } = settings.texts;
  const payload = { errorType: by, errorMessage: message };
  const text = textOf(failures, by) ?? faults.other;
  const next = by === "denied" ? result.deniedNext : by === "session_over" ? result.newLink : result.failedNext;
  const details = message === textOf(en.failures, by) ? [] : [message];
  const content = html`<p class="bad" role="alert">${text}</p><p class="quiet">${next}</p>
${developerDetails(settings, details)}${closing(settings, to)}`;
  const heading = filled(result.notConnectedTitle, { title });
  const status = by === "denied" ? 200 : 400;
  return page(heading, content, { settings, status, framedBy, ...messageTo(to, { type: "error", payload }) });
}

/**
 * Returns the page that leads back to the application. A redirect would fail: browsers apply the policy of the page
 * with the form to later redirects, and a provider's consent page allows this origin only.
 */
export function returnPage(target: string, settings: PageSettings): RouteAnswer {
  const { returning, goOn, returningTitle } = settings.texts.result;
  const content = html`<p class="quiet" role="status">${filled(returning, { host: new URL(target).host })}</p>
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

/** Returns the page about a fault, for a person. */
export function faultPage(fault: Fault, { settings, to, framedBy = [] }: ResultPageOptions): RouteAnswer {
  const { code, message, status, mistakes, retryAfterSeconds } = fault;
  const { faults, result } = settings.texts;
  const details = [sentence(message), ...mistakes.map(({ path, message: wrong }) => `${path.join(".")}: ${wrong}`)];
  const content = html`<p class="bad" role="alert">${textOf(faults, code) ?? faults.other}</p>
<p class="quiet">${code === "unknown_session" || code === "other_browser" ? result.newLink : result.stoppedNext}</p>
${developerDetails(settings, plain.has(code) ? [] : [...details, `Code: ${code}`])}${closing(settings, to)}`;
  const scripts = to === undefined ? {} : { scripts: [tell], data: { to } };
  const headers = {
    "latchkey-error": code,
    ...(retryAfterSeconds === undefined ? {} : { "retry-after": String(retryAfterSeconds) }),
  };
  return page(result.stoppedTitle, content, { settings, status, headers, framedBy, ...scripts });
}

/** Returns the page in the frame of a page whose origin is not allowed: only what its developer must set. */
export function notAllowedPage(origin: string, settings: PageSettings): RouteAnswer {
  const { faults, result } = settings.texts;
  const lines = [
    `The page that opened this frame is of ${origin === "" ? "an unknown origin: its Referrer-Policy hides it" : origin}.`,
    "Add its origin to allowed_origins of the session's environment.",
  ];
  const content = html`<p class="bad" role="alert">${faults.origin_not_allowed}</p>
<p class="quiet">${result.details}:</p><div lang="en">${lines.map((line) => html`<p class="quiet">${line}</p>`)}</div>`;
  return page(result.stoppedTitle, content, {
    settings,
    status: 403,
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

const closing = ({ texts }: PageSettings, to: string | undefined) =>
  to === undefined ? "" : html`<button type="button" class="plain" data-close>${texts.form.close}</button>`;

const messageTo = (to: string | undefined, message: object) =>
  to === undefined ? {} : { scripts: [tell], data: { to, message: JSON.stringify(message) } };

const sentence = (message: string): string => `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
