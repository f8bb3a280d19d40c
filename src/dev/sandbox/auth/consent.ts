import { randomBytes } from "node:crypto";
import { html } from "../../../base/html.ts";
import type { BehaviourSettings } from "../behaviour.ts";
import { createBounded } from "../bounded.ts";
import { type Call, formOf, type SandboxAnswer } from "../call.ts";
import { errorPage, page } from "../page/page.ts";
import { type Person, people, personByEmail } from "../people.ts";

/** What a client requests of a user, and how each decision is answered. */
export interface ConsentRequest {
  readonly clientName: string;
  readonly scopes: readonly string[];
  /** The email address of the user who is preselected. */
  readonly hint: string | null;
  /** Origins that the browser may be redirected to. */
  readonly formActions: readonly string[];
  readonly allowed: (decision: ConsentDecision) => SandboxAnswer;
  readonly denied: () => SandboxAnswer;
}

export interface ConsentDecision {
  readonly person: Person;
  readonly scopes: readonly string[];
}

/** The page on which a user allows or denies access, for OAuth 2, OAuth 1 and devices. */
export interface Consent {
  ask(request: ConsentRequest): SandboxAnswer;
  /** Handles the page's form. Each page works once, for ten minutes. */
  decide(call: Call): SandboxAnswer;
  reset(): void;
}

const lifetimeMs = 600_000;
export const consentPath = "/consent";

export function createConsent({
  now,
  settings,
}: {
  readonly now: () => number;
  readonly settings: () => BehaviourSettings;
}): Consent {
  const open = createBounded<{ readonly request: ConsentRequest; readonly expiresAt: number }>(10_000);
  const granted = (scopes: readonly string[]) =>
    scopes.filter((scope) => settings().grantOnly?.includes(scope) ?? true);

  return {
    ask(request) {
      const { consent } = settings();
      const [first] = people;
      const hinted = personByEmail(request.hint ?? "") ?? first;
      if (consent === "deny") return request.denied();
      if (consent === "allow" && hinted !== undefined) {
        return request.allowed({ person: hinted, scopes: granted(request.scopes) });
      }
      const id = randomBytes(16).toString("base64url");
      open.set(id, { request, expiresAt: now() + lifetimeMs });
      return consentPage(id, request, hinted);
    },
    decide(call) {
      const form = formOf(call);
      const id = form.get("request") ?? "";
      const found = open.get(id);
      if (found === undefined || now() >= found.expiresAt) {
        return errorPage(400, "This page was already used or has expired. Start again in your app.");
      }
      open.delete(id);
      const { request } = found;
      if (form.get("decision") !== "allow") return request.denied();
      const person = personByEmail(form.get("user") ?? "");
      if (person === undefined) return errorPage(400, "Choose a user.");
      const chosen = form.getAll("scope");
      return request.allowed({ person, scopes: granted(request.scopes.filter((scope) => chosen.includes(scope))) });
    },
    reset: () => open.clear(),
  };
}

function consentPage(
  id: string,
  { clientName, scopes, formActions }: ConsentRequest,
  chosen: Person | undefined,
): SandboxAnswer {
  const users = people.map(
    ({ email, name }) =>
      html`<label><input type="radio" name="user" value="${email}"${
        email === chosen?.email ? html` checked` : ""
      }><span>${name}<br><span class="quiet">${email}</span></span></label>`,
  );
  const boxes = scopes.map(
    (scope) =>
      html`<label><input type="checkbox" name="scope" value="${scope}" checked><span><code>${scope}</code></span></label>`,
  );
  const body = html`<form class="card" method="post" action="${consentPath}"><input type="hidden" name="request" value="${id}">
<fieldset><legend>User</legend>${users}</fieldset>
<fieldset><legend>The app may</legend>${boxes.length === 0 ? html`<p>know who you are</p>` : boxes}</fieldset>
<div class="decide"><button class="do" name="decision" value="allow">Allow</button><button name="decision" value="deny">Deny</button></div></form>`;
  return page(`${clientName} wants to act for you`, body, { formActions });
}
