import { randomBytes } from "node:crypto";
import { html } from "../../../base/html.ts";
import type { BehaviourSettings } from "../behaviour.ts";
import { createBounded } from "../bounded.ts";
import type { Call, SandboxAnswer } from "../call.ts";
import { errorPage, page, redirect } from "../page/page.ts";
import type { Person } from "../people.ts";
import type { SandboxRoute } from "../router.ts";
import { withFields } from "./authorization.ts";
import { mayRedirect, type SandboxClient } from "./clients.ts";
import type { Consent } from "./consent.ts";
import { problem, readSignedRequest } from "./oauth1-signature.ts";
import type { OAuth1Verifier, TokenPair } from "./oauth1-verifier.ts";

/** The three steps to an OAuth 1 token: temporary credentials, a user's consent, the exchange (RFC 5849, section 2). */
export interface OAuth1Authorization {
  readonly routes: readonly SandboxRoute[];
  reset(): void;
}

interface TemporaryCredentials extends TokenPair {
  readonly client: SandboxClient;
  readonly callback: string;
  readonly expiresAt: number;
  person?: Person;
  verifier?: string;
}

interface OAuth1AuthorizationOptions {
  readonly now: () => number;
  readonly settings: () => BehaviourSettings;
  readonly consent: Consent;
  readonly verifier: OAuth1Verifier;
  readonly issue: (client: SandboxClient, person: Person) => TokenPair;
}

const temporaryLifetimeMs = 600_000;
const outOfBand = "oob";

export function createOAuth1Authorization(options: OAuth1AuthorizationOptions): OAuth1Authorization {
  const { now, settings, consent, verifier: requests, issue } = options;
  const temporary = createBounded<TemporaryCredentials>(10_000);

  /** Section 2.1. */
  function initiate(call: Call): SandboxAnswer {
    const signed = readSignedRequest(call);
    const client = requests.clientOf(signed);
    requests.verify(signed, client);
    const callback = signed.parameters.get("oauth_callback");
    if (callback === undefined) throw problem(400, "parameter_absent", "oauth_callback is required");
    if (callback !== outOfBand && !mayRedirect(client, callback)) {
      throw problem(400, "parameter_rejected", "oauth_callback is not one of the consumer's");
    }
    const issued: TemporaryCredentials = {
      ...newTokenPair("tt"),
      client,
      callback,
      expiresAt: now() + temporaryLifetimeMs,
    };
    temporary.set(issued.token, issued);
    return tokenPairAnswer(issued, settings().callbackConfirmed ? { oauth_callback_confirmed: "true" } : {});
  }

  /** Section 2.2. */
  function authorize({ query }: Call): SandboxAnswer {
    const token = query.get("oauth_token") ?? "";
    const found = temporary.get(token);
    if (found === undefined || found.verifier !== undefined || now() >= found.expiresAt) {
      return errorPage(400, "The app's request is unknown or has expired.");
    }
    const { client, callback } = found;
    return consent.ask({
      clientName: client.name,
      scopes: [],
      hint: query.get("login_hint"),
      formActions: callback === outOfBand ? [] : [new URL(callback).origin],
      denied() {
        temporary.delete(token);
        if (callback === outOfBand) return page("Denied", html`<p>The app may not act for you.</p>`);
        return redirect(withFields(callback, { oauth_token: token, oauth_problem: "user_refused" }));
      },
      allowed({ person }) {
        found.person = person;
        found.verifier = randomBytes(12).toString("base64url");
        if (callback === outOfBand)
          return page("Allowed", html`<p>Enter this code: <code>${found.verifier}</code></p>`);
        return redirect(withFields(callback, { oauth_token: token, oauth_verifier: found.verifier }));
      },
    });
  }

  /** Section 2.3. Temporary credentials work once. */
  function exchange(call: Call): SandboxAnswer {
    const signed = readSignedRequest(call);
    const client = requests.clientOf(signed);
    const found = temporary.get(signed.parameters.get("oauth_token") ?? "");
    if (found === undefined || found.client.id !== client.id || now() >= found.expiresAt) {
      throw problem(401, "token_rejected", "no such temporary credentials");
    }
    requests.verify(signed, client, found);
    const { person, verifier } = found;
    if (person === undefined || verifier === undefined)
      throw problem(401, "permission_unknown", "the user has not decided yet");
    if (signed.parameters.get("oauth_verifier") !== verifier) throw problem(401, "verifier_invalid", "wrong verifier");
    temporary.delete(found.token);
    return tokenPairAnswer(issue(client, person), { user_id: person.id, screen_name: person.name });
  }

  return {
    routes: [
      { method: "POST", path: "/oauth/request_token", endpoint: "oauth1", answer: initiate },
      { method: "GET", path: "/oauth/request_token", endpoint: "oauth1", answer: initiate },
      { method: "GET", path: "/oauth/authorize", endpoint: "oauth1", answer: authorize },
      { method: "POST", path: "/oauth/access_token", endpoint: "oauth1", answer: exchange },
      { method: "GET", path: "/oauth/access_token", endpoint: "oauth1", answer: exchange },
    ],
    reset: () => temporary.clear(),
  };
}

export const newTokenPair = (kind: "ot" | "tt"): TokenPair => ({
  token: `sbx_${kind}_${randomBytes(18).toString("base64url")}`,
  secret: randomBytes(24).toString("base64url"),
});

function tokenPairAnswer({ token, secret }: TokenPair, more: Readonly<Record<string, string>>): SandboxAnswer {
  const body = new URLSearchParams({ oauth_token: token, oauth_token_secret: secret, ...more }).toString();
  return {
    status: 200,
    headers: { "content-type": "application/x-www-form-urlencoded", "cache-control": "no-store" },
    body,
  };
}
