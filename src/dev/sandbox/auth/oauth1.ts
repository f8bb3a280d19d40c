import { randomBytes } from "node:crypto";
import { html } from "../../../base/html.ts";
import type { BehaviourSettings } from "../behaviour.ts";
import { createBounded } from "../bounded.ts";
import type { Call, SandboxAnswer } from "../call.ts";
import { errorPage, page, redirect } from "../pages.ts";
import type { Person } from "../people.ts";
import type { SandboxRoute } from "../router.ts";
import type { SandboxTraffic } from "../seen.ts";
import { withFields } from "./authorization.ts";
import { type Clients, mayRedirect, type SandboxClient } from "./clients.ts";
import type { Consent } from "./consent.ts";
import { problem, readSignedRequest, type SignedRequest } from "./oauth1-signature.ts";

/** OAuth 1.0a (RFC 5849): three steps to a token, and every request signed. */
export interface OAuth1 {
  readonly routes: readonly SandboxRoute[];
  /** Who sent a signed request. Throws what such a request is answered when it is not good. */
  authenticate(call: Call): Person;
  /** A token as the three steps bring it. */
  issue(client: SandboxClient, person: Person): OAuth1Token;
  revoke(which: (token: OAuth1Token) => boolean): number;
  reset(): void;
}

export interface OAuth1Token {
  readonly token: string;
  readonly secret: string;
  readonly clientId: string;
  readonly person: Person;
}

interface TemporaryCredentials {
  readonly token: string;
  readonly secret: string;
  readonly client: SandboxClient;
  readonly callback: string;
  readonly expiresAt: number;
  person?: Person;
  verifier?: string;
}

interface OAuth1Options {
  readonly now: () => number;
  readonly settings: () => BehaviourSettings;
  readonly clients: Clients;
  readonly consent: Consent;
  readonly seen: SandboxTraffic;
}

const temporaryLifetimeMs = 600_000;
const outOfBand = "oob";

export function createOAuth1({ now, settings, clients, consent, seen }: OAuth1Options): OAuth1 {
  const temporary = createBounded<TemporaryCredentials>(10_000);
  const tokens = createBounded<OAuth1Token>(100_000);
  const nonces = createBounded<true>(100_000);

  /** Sections 3.2 and 3.3: signed by who it says, now, and never before. */
  function requireSigned(
    signed: SignedRequest,
    client: SandboxClient,
    token?: { readonly token: string; readonly secret: string },
  ): void {
    const { parameters } = signed;
    if ((parameters.get("oauth_version") ?? "1.0") !== "1.0") throw problem(400, "version_rejected", "must be 1.0");
    if (!signed.isSignedWith({ consumerSecret: client.secret ?? "", tokenSecret: token?.secret ?? "" })) {
      seen.count("signaturesRefused");
      throw problem(401, "signature_invalid", "the signature is not that of this request");
    }
    const [nonce, timestamp] = [parameters.get("oauth_nonce"), parameters.get("oauth_timestamp")];
    // With PLAINTEXT neither has to be there.
    if (parameters.get("oauth_signature_method") === "PLAINTEXT" && nonce === undefined) return;
    if (nonce === undefined || !/^[1-9]\d{0,14}$/.test(timestamp ?? "")) {
      throw problem(400, "parameter_absent", "oauth_nonce and oauth_timestamp are required");
    }
    if (Math.abs(now() - Number(timestamp) * 1_000) > settings().timestampToleranceS * 1_000) {
      throw problem(401, "timestamp_refused", "the timestamp is too far off");
    }
    const key = [client.id, token?.token ?? "", timestamp, nonce].join("\0");
    if (nonces.get(key) === true) {
      seen.count("noncesReplayed");
      throw problem(401, "nonce_used", "this nonce has been used");
    }
    nonces.set(key, true);
  }

  function clientOf({ parameters }: SignedRequest): SandboxClient {
    const client = clients.get(parameters.get("oauth_consumer_key") ?? "");
    if (client === undefined) throw problem(401, "consumer_key_unknown", "no such consumer");
    return client;
  }

  /** Section 2.1. */
  function initiate(call: Call): SandboxAnswer {
    const signed = readSignedRequest(call);
    const client = clientOf(signed);
    requireSigned(signed, client);
    const callback = signed.parameters.get("oauth_callback");
    if (callback === undefined) throw problem(400, "parameter_absent", "oauth_callback is required");
    if (callback !== outOfBand && !mayRedirect(client, callback)) {
      throw problem(400, "parameter_rejected", "oauth_callback is not one of the consumer's");
    }
    const made: TemporaryCredentials = { ...newPair("tt"), client, callback, expiresAt: now() + temporaryLifetimeMs };
    temporary.set(made.token, made);
    return pairAnswer(made, settings().callbackConfirmed ? { oauth_callback_confirmed: "true" } : {});
  }

  /** Section 2.2. */
  function authorize({ query }: Call): SandboxAnswer {
    const token = query.get("oauth_token") ?? "";
    const found = temporary.get(token);
    if (found === undefined || found.verifier !== undefined || now() >= found.expiresAt) {
      return errorPage(400, "The app's request is not known, or no longer good.");
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

  /** Section 2.3. Temporary credentials are good once. */
  function exchange(call: Call): SandboxAnswer {
    const signed = readSignedRequest(call);
    const client = clientOf(signed);
    const found = temporary.get(signed.parameters.get("oauth_token") ?? "");
    if (found === undefined || found.client.id !== client.id || now() >= found.expiresAt) {
      throw problem(401, "token_rejected", "no such temporary credentials");
    }
    requireSigned(signed, client, found);
    const { person, verifier } = found;
    if (person === undefined || verifier === undefined)
      throw problem(401, "permission_unknown", "nobody has decided yet");
    if (signed.parameters.get("oauth_verifier") !== verifier) throw problem(401, "verifier_invalid", "wrong verifier");
    temporary.delete(found.token);
    return pairAnswer(issue(client, person), { user_id: person.id, screen_name: person.name });
  }

  function issue(client: SandboxClient, person: Person): OAuth1Token {
    const made = { ...newPair("ot"), clientId: client.id, person };
    tokens.set(made.token, made);
    seen.count("tokensIssued");
    return made;
  }

  return {
    routes: [
      { method: "POST", path: "/oauth/request_token", endpoint: "oauth1", answer: initiate },
      { method: "GET", path: "/oauth/request_token", endpoint: "oauth1", answer: initiate },
      { method: "GET", path: "/oauth/authorize", endpoint: "oauth1", answer: authorize },
      { method: "POST", path: "/oauth/access_token", endpoint: "oauth1", answer: exchange },
      { method: "GET", path: "/oauth/access_token", endpoint: "oauth1", answer: exchange },
    ],
    issue,
    authenticate(call) {
      const signed = readSignedRequest(call);
      const client = clientOf(signed);
      const found = tokens.get(signed.parameters.get("oauth_token") ?? "");
      if (found === undefined || found.clientId !== client.id) throw problem(401, "token_rejected", "no such token");
      requireSigned(signed, client, found);
      return found.person;
    },
    revoke(which) {
      const ending = [...tokens.values()].filter(which);
      for (const { token } of ending) tokens.delete(token);
      return ending.length;
    },
    reset() {
      temporary.clear();
      tokens.clear();
      nonces.clear();
    },
  };
}

const newPair = (kind: string) => ({
  token: `sbx_${kind}_${randomBytes(18).toString("base64url")}`,
  secret: randomBytes(24).toString("base64url"),
});

function pairAnswer(
  { token, secret }: { readonly token: string; readonly secret: string },
  more: Readonly<Record<string, string>>,
): SandboxAnswer {
  const body = new URLSearchParams({ oauth_token: token, oauth_token_secret: secret, ...more }).toString();
  return {
    status: 200,
    headers: { "content-type": "application/x-www-form-urlencoded", "cache-control": "no-store" },
    body,
  };
}
