import { randomBytes } from "node:crypto";
import { html } from "../../../base/html.ts";
import type { BehaviourSettings } from "../behaviour.ts";
import { createBounded } from "../bounded.ts";
import { type Call, formOf, type SandboxAnswer } from "../call.ts";
import { errorPage, page } from "../pages.ts";
import { type Person, people, personByEmail } from "../people.ts";

/** What a client asks a user for, and what becomes of the answer. */
export interface Question {
  readonly clientName: string;
  readonly scopes: readonly string[];
  /** The address that is chosen already when the page opens. */
  readonly hint: string | null;
  /** Where the browser may be sent afterwards. */
  readonly formActions: readonly string[];
  readonly allowed: (decision: ConsentDecision) => SandboxAnswer;
  readonly denied: () => SandboxAnswer;
}

export interface ConsentDecision {
  readonly person: Person;
  readonly scopes: readonly string[];
}

/** The page on which a user allows or denies: the same for OAuth 2, OAuth 1 and devices. */
export interface Consent {
  ask(question: Question): SandboxAnswer;
  /** The page's form, sent back. Each page is good once, for ten minutes. */
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
  const open = createBounded<{ readonly question: Question; readonly expiresAt: number }>(10_000);
  const granted = (scopes: readonly string[]) =>
    scopes.filter((scope) => settings().grantOnly?.includes(scope) ?? true);

  return {
    ask(question) {
      const { consent } = settings();
      const [first] = people;
      const hinted = personByEmail(question.hint ?? "") ?? first;
      if (consent === "deny") return question.denied();
      if (consent === "allow" && hinted !== undefined) {
        return question.allowed({ person: hinted, scopes: granted(question.scopes) });
      }
      const id = randomBytes(16).toString("base64url");
      open.set(id, { question, expiresAt: now() + lifetimeMs });
      return consentPage(id, question, hinted);
    },
    decide(call) {
      const form = formOf(call);
      const id = form.get("request") ?? "";
      const found = open.get(id);
      if (found === undefined || now() >= found.expiresAt) {
        return errorPage(400, "This page has been used already, or is too old. Begin again where you came from.");
      }
      open.delete(id);
      const { question } = found;
      if (form.get("decision") !== "allow") return question.denied();
      const person = personByEmail(form.get("user") ?? "");
      if (person === undefined) return errorPage(400, "Nobody was chosen.");
      const chosen = form.getAll("scope");
      return question.allowed({ person, scopes: granted(question.scopes.filter((scope) => chosen.includes(scope))) });
    },
    reset: () => open.clear(),
  };
}

function consentPage(
  id: string,
  { clientName, scopes, formActions }: Question,
  chosen: Person | undefined,
): SandboxAnswer {
  const users = people.map(
    ({ email, name }) =>
      html`<label><input type="radio" name="user" value="${email}"${
        email === chosen?.email ? html` checked` : ""
      }> ${name} (${email})</label>`,
  );
  const boxes = scopes.map(
    (scope) => html`<label><input type="checkbox" name="scope" value="${scope}" checked> <code>${scope}</code></label>`,
  );
  const body = html`<form method="post" action="${consentPath}"><input type="hidden" name="request" value="${id}">
<fieldset><legend>You are</legend>${users}</fieldset>
<fieldset><legend>It may</legend>${boxes.length === 0 ? html`<p>know who you are</p>` : boxes}</fieldset>
<button name="decision" value="allow">Allow</button><button name="decision" value="deny">Deny</button></form>`;
  return page(`${clientName} wants to act for you`, body, { formActions });
}
