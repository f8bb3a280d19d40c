import * as v from "valibot";
import { html } from "../../base/html.ts";
import { hostName } from "../../base/http/door-guard.ts";
import { readyApiKey, readyUser } from "./auth/access.ts";
import { clientSchema, type SandboxClients } from "./auth/clients.ts";
import { type Behaviour, BehaviourMistake } from "./behaviour.ts";
import { type Call, json, objectOf, refuse, type SandboxAnswer } from "./call.ts";
import { page, redirect } from "./pages.ts";
import { people } from "./people.ts";
import type { SandboxReport } from "./report.ts";
import type { SandboxRoute } from "./router.ts";

interface SandboxControlOptions {
  readonly origin: () => string;
  readonly behaviour: Behaviour;
  readonly clients: SandboxClients;
  readonly seen: () => SandboxReport;
  readonly revoke: (which: RevokeFilter) => number;
  readonly grant: (request: GrantInput) => unknown;
  readonly changeCalendar: (user: string, changes: number) => void;
  readonly reset: () => void;
}

/** A grant must match every field that is set; without fields, all grants match. */
export const revokeSchema = v.strictObject({
  grant: v.optional(v.string()),
  user: v.optional(v.string()),
  client: v.optional(v.string()),
  token: v.optional(v.string()),
});
export type RevokeFilter = v.InferInput<typeof revokeSchema>;

export const grantSchema = v.strictObject({
  /** The user's email address. */
  user: v.optional(v.string(), "ada@example.com"),
  client: v.optional(v.string(), "sandbox"),
  scopes: v.optional(v.array(v.pipe(v.string(), v.regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/))), [
    "openid",
    "email",
    "profile",
    "drive",
    "gmail.modify",
    "spreadsheets",
    "calendar",
  ]),
});
export type GrantInput = v.InferInput<typeof grantSchema>;

/** Changes of a user's primary calendar by another person; many changes are a burst of notifications. */
export const calendarSchema = v.strictObject({
  user: v.optional(v.string(), "ada@example.com"),
  changes: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(1_000)), 1),
});

/** The sandbox's own page, and the API that reports what it saw and sets how it behaves. */
export function controlRoutes({
  origin,
  behaviour,
  clients,
  seen,
  revoke,
  grant,
  changeCalendar,
  reset,
}: SandboxControlOptions): readonly SandboxRoute[] {
  /** Refuses requests that a foreign page sends through a browser, also by DNS rebinding. */
  function requireOwn({ headers }: Call): void {
    const host = headers.host ?? "";
    const isOwn = host === new URL(origin()).host || /^(127\.0\.0\.1|\[::1\]|localhost)$/.test(hostName(host) ?? "");
    const from = headers.origin;
    const isForeign = from !== undefined && (!URL.canParse(from) || new URL(from).host !== host);
    if (!isOwn || isForeign || headers["sec-fetch-site"] === "cross-site") {
      throw refuse(403, "forbidden", "Only this machine may call this, and no other site's page.");
    }
  }

  const own = (method: string, path: string, answer: (call: Call) => SandboxAnswer): SandboxRoute => ({
    method,
    path,
    endpoint: "sandbox",
    answer(call) {
      requireOwn(call);
      return answer(call);
    },
  });

  const showOverview = () => overview({ origin: origin(), clients, report: seen() });

  return [
    { method: "GET", path: "/", endpoint: "sandbox", answer: () => redirect("/_sandbox") },
    own("GET", "/_sandbox", showOverview),
    own("GET", "/_sandbox/", showOverview),
    own("GET", "/_sandbox/seen", () => json(seen())),
    own("GET", "/_sandbox/behaviour", () => json(behaviour.shown())),
    own("PUT", "/_sandbox/behaviour", (call) => {
      try {
        behaviour.change(objectOf(call));
      } catch (error) {
        if (error instanceof BehaviourMistake) throw refuse(400, "invalid", error.message);
        throw error;
      }
      return json(behaviour.shown());
    }),
    own("GET", "/_sandbox/clients", () => json({ clients: [...clients.values()] })),
    own("PUT", "/_sandbox/clients/:id", (call) => {
      const client = read(clientSchema, { ...objectOf(call), id: call.params["id"] });
      clients.set(client.id, client);
      return json(client);
    }),
    own("POST", "/_sandbox/grant", (call) => json(grant(read(grantSchema, objectOf(call))))),
    own("POST", "/_sandbox/revoke", (call) => json({ revoked: revoke(read(revokeSchema, objectOf(call))) })),
    own("POST", "/_sandbox/calendar", (call) => {
      const { user, changes } = read(calendarSchema, objectOf(call));
      changeCalendar(user, changes);
      return json({});
    }),
    own("POST", "/_sandbox/reset", () => {
      reset();
      return json({});
    }),
  ];
}

function read<S extends v.GenericSchema>(schema: S, value: unknown): v.InferOutput<S> {
  const found = v.safeParse(schema, value);
  if (found.success) return found.output;
  const mistakes = found.issues.map((issue) => `${v.getDotPath(issue) ?? "the body"}: ${issue.message}`);
  throw refuse(400, "invalid", mistakes.join("; "));
}

interface Overview {
  readonly origin: string;
  readonly clients: SandboxClients;
  readonly report: SandboxReport;
}

function overview({ origin, clients, report }: Overview): SandboxAnswer {
  const apps = [...clients.values()]
    .slice(0, 50)
    .map(
      ({ id, secret, redirectUris }) =>
        html`<tr><td><code>${id}</code></td><td><code>${secret ?? "none"}</code></td><td>${
          redirectUris.length === 0 ? "any address on this machine" : redirectUris.join(", ")
        }</td></tr>`,
    );
  const users = people.map(({ name, email }) => html`<li>${name}, ${email}</li>`);
  const numbers = [...Object.entries(report.requests), ...Object.entries(report.tallies)].map(
    ([name, count]) => html`<tr><td>${name}</td><td>${count}</td></tr>`,
  );
  const at = (path: string) => html`<code>${origin}${path}</code>`;
  return page(
    "The latchkey sandbox",
    html`<p>A provider to develop against: it authorizes users, issues tokens, and has files, mail, spreadsheets and calendars. It forgets all changes when it stops.</p>
<h2>Addresses</h2><table>
<tr><th>OAuth 2</th><td>${at("/oauth2/auth")}<br>${at("/oauth2/token")}<br>${at("/.well-known/oauth-authorization-server")}</td></tr>
<tr><th>OAuth 1</th><td>${at("/oauth/request_token")}<br>${at("/oauth/authorize")}<br>${at("/oauth/access_token")}</td></tr>
<tr><th>Files</th><td>${at("/drive/v3/files")}</td></tr><tr><th>Mail</th><td>${at("/gmail/v1/users/me/messages")}</td></tr>
<tr><th>Spreadsheets</th><td>${at("/v4/spreadsheets/engines")}</td></tr><tr><th>Calendar</th><td>${at("/v3/calendars/primary/events")}</td></tr>
<tr><th>Any credentials</th><td>${at("/api/me")}<br>${at("/api/echo/…")}</td></tr></table>
<h2>Apps</h2><table><tr><th>Id</th><th>Secret</th><th>Redirects to</th></tr>${apps}</table>
<p>API key <code>${readyApiKey}</code> in <code>x-api-key</code>; user <code>${readyUser.name}</code>, password <code>${readyUser.password}</code>. Any other key, user or password is refused with 401.</p>
<h2>Users</h2><ul>${users}</ul>
<h2>Requests and events</h2><table>${numbers}</table>
<p>Details: <a href="/_sandbox/seen">/_sandbox/seen</a>. Settings: <a href="/_sandbox/behaviour">/_sandbox/behaviour</a>; change them with PUT.</p>`,
  );
}
