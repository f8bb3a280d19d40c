import type { BehaviourSettings } from "../behaviour.ts";
import { type Call, json, refuseOAuth, type SandboxAnswer } from "../call.ts";
import { robot } from "../people.ts";
import type { SandboxRoute } from "../router.ts";
import { authenticateClient, parametersOf, type SandboxClient, type SandboxClients } from "./clients.ts";
import type { Codes } from "./codes.ts";
import type { Devices } from "./devices.ts";
import type { SandboxIdTokens } from "./id-tokens.ts";
import type { IssuedTokens, SandboxTokens } from "./tokens.ts";

interface SandboxTokenEndpointOptions {
  readonly settings: () => BehaviourSettings;
  readonly clients: SandboxClients;
  readonly codes: Codes;
  readonly devices: Devices;
  readonly tokens: SandboxTokens;
  readonly idTokens: SandboxIdTokens;
}

interface SandboxTokenRequest {
  readonly client: SandboxClient;
  readonly parameters: URLSearchParams;
}

/** The tokens of a grant, and further fields of the response. */
interface GrantOutcome extends IssuedTokens {
  /** True if a user has just consented, so that an ID token is due; `nonce` is from the client's request. */
  readonly isFresh?: boolean;
  readonly nonce?: string | undefined;
  readonly more?: Readonly<Record<string, string>>;
}

export const accessTokenType = "urn:ietf:params:oauth:token-type:access_token";
export const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code";
export const exchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange";

/** The token endpoint (RFC 6749, section 3.2) and revocation (RFC 7009). */
export function tokenRoutes(options: SandboxTokenEndpointOptions): readonly SandboxRoute[] {
  const { settings, clients, codes, devices, tokens, idTokens } = options;

  const grants: Readonly<Record<string, (request: SandboxTokenRequest) => GrantOutcome>> = {
    authorization_code({ client, parameters }) {
      const code = required(parameters, "code");
      const allowed = codes.take(code, {
        client,
        redirectUri: parameters.get("redirect_uri"),
        verifier: parameters.get("code_verifier"),
      });
      const { refreshTokens } = settings();
      const withRefreshToken = refreshTokens === "always" || (refreshTokens === "asked" && allowed.isOffline);
      const issued = tokens.grant({ client, person: allowed.person, scopes: allowed.scopes, withRefreshToken });
      codes.recordGrant(code, issued.grant);
      return { ...issued, isFresh: true, nonce: allowed.nonce };
    },
    refresh_token({ client, parameters }) {
      return tokens.refresh(required(parameters, "refresh_token"), client, scopesOf(parameters));
    },
    client_credentials({ client, parameters }) {
      // Section 4.4: confidential clients only.
      if (client.secret === undefined) throw refuseOAuth(400, "unauthorized_client", "this client has no secret");
      return tokens.grant({ client, person: robot, scopes: scopesOf(parameters) ?? [], withRefreshToken: false });
    },
    [deviceGrant]({ client, parameters }) {
      const { person, scopes } = devices.take(required(parameters, "device_code"), client);
      const withRefreshToken = settings().refreshTokens !== "never";
      return { ...tokens.grant({ client, person, scopes, withRefreshToken }), isFresh: true };
    },
    [exchangeGrant]({ parameters }) {
      const { grant, scopes } = subjectOf(parameters);
      const wanted = scopesOf(parameters) ?? scopes;
      if (wanted.some((scope) => !scopes.includes(scope))) {
        throw refuseOAuth(400, "invalid_scope", "more than the subject token has");
      }
      return { ...tokens.access(grant, wanted), more: { issued_token_type: accessTokenType } };
    },
  };

  /** RFC 8693 for access tokens: exchanges one for another, without adding scopes. */
  function subjectOf(parameters: URLSearchParams) {
    if (required(parameters, "subject_token_type") !== accessTokenType) {
      throw refuseOAuth(400, "invalid_request", `subject_token_type must be ${accessTokenType}`);
    }
    const subject = tokens.find(required(parameters, "subject_token"));
    if (subject === undefined) throw refuseOAuth(400, "invalid_grant", "the subject token is not valid");
    return subject;
  }

  function token(call: Call): SandboxAnswer {
    const parameters = parametersOf(call);
    const client = authenticateClient(clients, call, parameters);
    const grantType = required(parameters, "grant_type");
    const grant = Object.hasOwn(grants, grantType) ? grants[grantType] : undefined;
    if (grant === undefined) throw refuseOAuth(400, "unsupported_grant_type");
    const outcome = grant({ client, parameters });
    return tokenAnswer(settings(), {
      access_token: outcome.accessToken,
      token_type: "Bearer",
      expires_in: outcome.expiresInS,
      ...(outcome.refreshToken === undefined ? {} : { refresh_token: outcome.refreshToken }),
      scope: outcome.scopes.join(" "),
      ...outcome.more,
      ...(outcome.isFresh === true ? idTokens.fieldFor(outcome.grant, outcome.nonce) : {}),
    });
  }

  function revoke(call: Call): SandboxAnswer {
    const parameters = parametersOf(call);
    const client = authenticateClient(clients, call, parameters);
    tokens.revoke(required(parameters, "token"), client);
    // Section 2.2: an unknown token counts as revoked.
    return { status: 200, headers: { "cache-control": "no-store" } };
  }

  return [
    { method: "POST", path: "/oauth2/token", endpoint: "token", answer: token },
    { method: "POST", path: "/oauth2/revoke", endpoint: "revocation", answer: revoke },
  ];
}

function required(parameters: URLSearchParams, name: string): string {
  const value = parameters.get(name);
  if (value === null || value === "") throw refuseOAuth(400, "invalid_request", `${name} is missing`);
  return value;
}

function scopesOf(parameters: URLSearchParams): readonly string[] | undefined {
  const scopes = (parameters.get("scope") ?? "").split(" ").filter((scope) => scope !== "");
  return scopes.length === 0 ? undefined : scopes;
}

/** The response of RFC 6749, section 5.1, with the configured deviations. */
function tokenAnswer(
  { tokenAnswer: deviations }: BehaviourSettings,
  standard: Readonly<Record<string, unknown>>,
): SandboxAnswer {
  const all: Record<string, unknown> = { ...standard, ...deviations.fields };
  const kept = Object.entries(all).filter(([name]) => !deviations.omit.includes(name));
  const fields = Object.fromEntries(kept);
  const noStore = { "cache-control": "no-store", pragma: "no-cache" };
  if (deviations.format === "form") {
    const form = new URLSearchParams(kept.map(([name, value]): [string, string] => [name, String(value)]));
    return {
      status: 200,
      headers: { ...noStore, "content-type": "application/x-www-form-urlencoded; charset=utf-8" },
      body: form.toString(),
    };
  }
  return json(deviations.nestUnder === "" ? fields : { ok: true, [deviations.nestUnder]: fields }, {
    headers: noStore,
  });
}
