import { type Html, html } from "../../../base/html.ts";
import { readyApiKey, readyUser } from "../auth/access.ts";
import type { SandboxClients } from "../auth/clients.ts";
import type { SandboxAnswer } from "../call.ts";
import { people } from "../people.ts";
import type { SandboxReport } from "../report.ts";
import type { SeenRequest } from "../seen.ts";
import { page } from "./page.ts";
import { endings, type Trouble, troubleGroups, troubleOf } from "./troubles.ts";

/** What the page shows. */
export interface Overview {
  readonly origin: string;
  readonly clients: SandboxClients;
  readonly report: SandboxReport;
  /** The settings that differ from the defaults, and the missteps that are left. */
  readonly active: readonly string[];
  /** The id of the trouble that was just made. */
  readonly made: string;
}

const shownRequests = 25;

/** Reads the page again each second, while somebody looks at it, and replaces what changes by itself. */
const liveScript = `(() => {
  const refresh = async () => {
    if (document.hidden) return;
    const response = await fetch(location.pathname, { cache: "no-store" });
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const next = fresh.querySelector('[data-live="' + part.dataset.live + '"]');
      if (next && next.innerHTML !== part.innerHTML) part.replaceChildren(...next.childNodes);
    }
  };
  const loop = () => refresh().catch(() => {}).then(() => setTimeout(loop, 1000));
  setTimeout(loop, 1000);
})()`;

/** Returns the sandbox's own page: its troubles, what it receives, and how to reach it. */
export function overview(shown: Overview): SandboxAnswer {
  const made = troubleOf(shown.made);
  const notice = made === undefined ? html`` : html`<p class="done" role="status">${made.done}</p>`;
  return page(
    "The Latchkey sandbox",
    html`<p>A provider to develop against: it authorizes users, issues tokens, and has files, mail, spreadsheets and calendars. All changes are lost when it stops.</p>
${notice}${troubles(shown)}
<section><h2 id="requests">Requests</h2><div data-live="requests">${requests(shown.report)}</div></section>
<div class="columns">${counters(shown.report)}${credentials(shown)}</div>${addresses(shown.origin)}`,
    { script: liveScript, isWide: true },
  );
}

const button = ({ id, label }: Trouble): Html => html`<button name="trouble" value="${id}">${label}</button>`;

function troubles({ active }: Overview): Html {
  const groups = troubleGroups.map(
    ({ title, troubles: all }) => html`<div><h3>${title}</h3><div class="stacked">${all.map(button)}</div></div>`,
  );
  const state =
    active.length === 0
      ? html`<p class="note">Now: no failures.</p>`
      : html`<p class="note">Now: ${active.join("; ")}.</p>`;
  return html`<section><h2>Simulate failures</h2><form method="post" action="/_sandbox/trouble"><div class="columns troubles">${groups}</div>
<div data-live="state">${state}</div><div class="row">${endings.map(button)}</div></form></section>`;
}

function requests({ last }: SandboxReport): Html {
  const all = Object.entries(last)
    .filter(([endpoint]) => endpoint !== "sandbox")
    .flatMap(([endpoint, kept = []]) => kept.map((request: SeenRequest) => ({ endpoint, ...request })))
    .toSorted((a, b) => (a.at < b.at ? 1 : -1))
    .slice(0, shownRequests);
  if (all.length === 0) return html`<p class="note">None yet. They appear here as they arrive.</p>`;
  const rows = all.map(
    ({ at, method, target, outcome }) =>
      html`<tr><td class="quiet"><time datetime="${at}">${at.slice(11, 19)}</time></td><td${
        /^[23]/.test(outcome) || outcome === "open" ? "" : html` class="bad"`
      }>${outcome === "open" ? "under way" : outcome}</td><td>${method}</td><td><code>${shortened(target)}</code></td></tr>`,
  );
  return html`<div class="scroll" tabindex="0" role="region" aria-labelledby="requests"><table><thead><tr><th>Time (UTC)</th><th>Outcome</th><th>Method</th><th>Path</th></tr></thead><tbody>${rows}</tbody></table></div>
<p class="note">With headers and bodies: <a href="/_sandbox/seen">/_sandbox/seen</a>.</p>`;
}

const shortened = (target: string): string => (target.length > 90 ? `${target.slice(0, 89)}…` : target);

/** `tokensIssued` reads "Tokens issued". */
const words = (name: string): string => {
  const spaced = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`).replaceAll("-", " ");
  return `${spaced.charAt(0).toUpperCase()}${spaced.slice(1)}`;
};

const labels: Readonly<Record<string, string>> = {
  supersededInGrace: "Replaced refresh tokens used within the grace period",
  supersededReused: "Replaced refresh tokens used too late",
  familiesRevoked: "Grants revoked for reuse",
  codesReused: "Codes used twice",
  tokensOverflowed: "Refresh tokens dropped above the limit",
  noncesReplayed: "Nonces used twice",
  oauth1: "OAuth 1 requests",
  api: "API requests",
  jwks: "Key set requests",
  unknown: "Requests to unknown paths",
};

function counters({ requests: byEndpoint, tallies }: SandboxReport): Html {
  const counted = [
    ...Object.entries(byEndpoint)
      .filter(([endpoint]) => endpoint !== "sandbox")
      .map(([endpoint, count]) => [labels[endpoint] ?? `${words(endpoint)} requests`, count] as const),
    ...Object.entries(tallies).map(([name, count]) => [labels[name] ?? words(name), count] as const),
  ].filter(([, count]) => count > 0);
  const rows = counted.map(([label, count]) => html`<tr><td>${label}</td><td class="number">${count}</td></tr>`);
  const table = rows.length === 0 ? html`<p class="note">Nothing yet.</p>` : html`<table>${rows}</table>`;
  return html`<section><h2>Since the start</h2><div data-live="counters">${table}</div></section>`;
}

function credentials({ clients }: Overview): Html {
  const apps = [...clients.values()]
    .slice(0, 50)
    .map(
      ({ id, secret, redirectUris }) =>
        html`<p>App <code>${id}</code>, secret ${secret === undefined ? "none" : html`<code>${secret}</code>`}, redirects to ${
          redirectUris.length === 0 ? "any address on this machine" : redirectUris.join(", ")
        }</p>`,
    );
  const users = people.map(({ name, email }) => html`<li>${name}, ${email}</li>`);
  return html`<section><h2>Credentials</h2>${apps}
<p>API key <code>${readyApiKey}</code> in <code>x-api-key</code>; user <code>${readyUser.name}</code>, password <code>${readyUser.password}</code>. Any other key, user or password is refused with 401.</p>
<h3>Users</h3><ul>${users}</ul></section>`;
}

function addresses(origin: string): Html {
  const at = (path: string) => html`<code>${origin}${path}</code>`;
  return html`<section><h2>Addresses</h2><table class="stack">
<tr><th>OAuth 2</th><td>${at("/oauth2/auth")}<br>${at("/oauth2/token")}<br>${at("/.well-known/oauth-authorization-server")}</td></tr>
<tr><th>OAuth 1</th><td>${at("/oauth/request_token")}<br>${at("/oauth/authorize")}<br>${at("/oauth/access_token")}</td></tr>
<tr><th>Files</th><td>${at("/drive/v3/files")}</td></tr><tr><th>Mail</th><td>${at("/gmail/v1/users/me/messages")}</td></tr>
<tr><th>Spreadsheets</th><td>${at("/v4/spreadsheets/engines")}</td></tr><tr><th>Calendar</th><td>${at("/v3/calendars/primary/events")}</td></tr>
<tr><th>Any credentials</th><td>${at("/api/me")}<br>${at("/api/echo/…")}</td></tr></table>
<p class="note">All settings: <a href="/_sandbox/behaviour">/_sandbox/behaviour</a>; change them with PUT.</p></section>`;
}

interface ShownBehaviour {
  readonly answers: Readonly<Record<string, readonly { readonly kind: string; readonly left: number | null }[]>>;
  readonly [setting: string]: unknown;
}

/** Describes the settings that differ from the defaults, and the missteps that are left. */
export function activeOf(now: unknown, usual: unknown): string[] {
  // Both come from `Behaviour.shown`.
  const [shown, defaults] = [now as ShownBehaviour, usual as ShownBehaviour];
  const changed = Object.entries(shown).filter(
    ([name, value]) => name !== "answers" && JSON.stringify(value) !== JSON.stringify(defaults[name]),
  );
  const missteps = Map.groupBy(
    Object.entries(shown.answers).flatMap(([endpoint, list]) => list.map((misstep) => ({ endpoint, ...misstep }))),
    ({ kind, left }) => `${kind} ${left === null ? "until changed" : left === 1 ? "once" : `${left} times`}`,
  );
  return [
    ...changed.map(([name, value]) => `${settingWords(name)} ${valueWords(value)}`),
    ...[...missteps].map(([text, of]) => `${of.map(({ endpoint }) => endpoint).join(", ")}: ${text}`),
  ];
}

const settingWords = (name: string): string =>
  words(name.replace(/S$/, "InSeconds").replace(/Ms$/, "InMs")).toLowerCase();
const valueWords = (value: unknown): string =>
  Array.isArray(value) ? value.join(", ") : typeof value === "string" ? value : JSON.stringify(value);
