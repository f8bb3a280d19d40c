import type { Fault } from "../../base/fault.ts";
import { html } from "../../base/html.ts";
import type { Answer } from "../routes.ts";
import { page } from "./layout.ts";
import { tell } from "./scripts.ts";

/** What came of it, for a person, and for the page that waits. */
interface Told {
  /** The origin of the page that opened or frames this one; undefined: none is told. */
  readonly to?: string | undefined;
  readonly framedBy?: readonly string[];
}

interface Connected extends Told {
  /** What a person calls the integration. */
  readonly title: string;
  readonly integration: string;
  readonly connectionId: string;
  readonly missingScopes: readonly string[];
}

export function connectedPage({
  title,
  integration,
  connectionId,
  missingScopes,
  to,
  framedBy = [],
}: Connected): Answer {
  const missing =
    missingScopes.length === 0
      ? html``
      : html`<p>It was connected without everything that was asked for. What needs one of these will not work:</p>
<ul>${missingScopes.map((scope) => html`<li><code>${scope}</code></li>`)}</ul>
<p class="quiet">To allow them as well, connect it again.</p>`;
  const payload = { providerConfigKey: integration, connectionId, isPending: false };
  const content = html`<p class="good" role="status">${title} is connected.</p>${missing}
<p class="quiet">You can close this window.</p>${closing(to)}`;
  return page("Connected", content, { framedBy, ...told(to, { type: "connect", payload }) });
}

interface Failed extends Told {
  readonly title: string;
  readonly by: string;
  readonly message: string;
}

export function failedPage({ title, by, message, to, framedBy = [] }: Failed): Answer {
  const payload = { errorType: by, errorMessage: message };
  const next =
    by === "denied"
      ? "If you did not mean that, go back to where you came from and begin again."
      : "Nothing was stored. Go back to where you came from and begin again; if that does not help, ask whoever sent you here.";
  const content = html`<p class="bad" role="alert">${message}</p><p class="quiet">${next}</p>${closing(to)}`;
  const status = by === "denied" ? 200 : 400;
  return page(`${title} is not connected`, content, { status, framedBy, ...told(to, { type: "error", payload }) });
}

/**
 * Leads back to the application. A redirect would not do: browsers hold the redirects that follow a form to what the
 * page with the form allows, and a provider's consent page allows this origin and no application's.
 */
export function returnPage(target: string): Answer {
  const content = html`<p class="quiet" role="status">You go back to ${new URL(target).host}.</p>
<a class="button" href="${target}">Continue</a>`;
  return page("One moment", content, { goesOnTo: target });
}

/** What stops a page: the same as the envelope says, for a person. */
export function faultPage(fault: Fault): Answer {
  const { code, message, status, mistakes } = fault;
  const details = mistakes.map(({ path, message: wrong }) => html`<li>${path.at(-1) ?? ""} ${wrong}</li>`);
  const content = html`<p class="bad" role="alert">${plain[code] ?? sentence(message)}</p>
${details.length === 0 ? "" : html`<ul>${details}</ul>`}
<p class="quiet">Go back to where you came from and begin again; if that does not help, ask whoever sent you here.</p>`;
  return page("This cannot go on", content, { status });
}

/** In other words than a programmer's. */
const plain: Readonly<Record<string, string>> = {
  unknown_session: "This link has been used already, or is too old. Ask for another one.",
  other_browser:
    "This link belongs to the browser in which it was used first. This is another one, or its cookies were not kept. Go on in that browser, or ask for another link.",
  unknown_authorization: "This page has been used already, or is too old.",
  unknown_provider_config: "What you want to connect is not known here.",
};

const closing = (to: string | undefined) =>
  to === undefined ? "" : html`<button type="button" class="plain" data-close>Close</button>`;

const told = (to: string | undefined, message: object) =>
  to === undefined ? {} : { script: tell, data: { to, message: JSON.stringify(message) } };

const sentence = (message: string): string => `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
