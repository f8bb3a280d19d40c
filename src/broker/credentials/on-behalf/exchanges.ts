import type { TokenFailure, Tokens } from "../../../auth/oauth2/tokens.ts";
import { Fault } from "../../../base/fault.ts";
import type { TokenEndpoint, TokenParties } from "../../tokens/token-endpoint.ts";
import { unusable } from "../../tokens/token-failure.ts";
import type { OnBehalfSettings } from "./settings.ts";

/** RFC 8693, section 3. */
const subjectTokenTypes = {
  id_token: "urn:ietf:params:oauth:token-type:id_token",
  access_token: "urn:ietf:params:oauth:token-type:access_token",
  jwt: "urn:ietf:params:oauth:token-type:jwt",
} as const;
const assertionType = "urn:ietf:params:oauth:token-type:id-jag";

/** Exchanges the verified token of a user for an access token. Rejects with `TokenFailure`. */
export async function accessTokenFor(
  subjectToken: string,
  settings: OnBehalfSettings,
  endpoint: Pick<TokenEndpoint, "ask">,
): Promise<Tokens> {
  const { grant, server, identityProvider, subjects, audience, resource, scope, rules } = settings;
  const subjectTokenType = subjectTokenTypes[subjects.type];
  switch (grant) {
    case "token_exchange":
      return endpoint.ask({
        ...withParams(server, { audience, resource, scope, requested_token_type: rules.requestedTokenType }),
        grant: { type: "token_exchange", subjectToken, subjectTokenType },
      });
    case "jwt_bearer":
      return endpoint.ask({
        ...withParams(server, { audience, resource, scope }),
        grant: { type: "jwt_bearer", assertion: subjectToken },
      });
    case "id_jag": {
      const issued = await endpoint.ask({
        ...withParams(identityProvider, { audience, resource, scope, requested_token_type: assertionType }),
        grant: { type: "token_exchange", subjectToken, subjectTokenType, isForAssertion: true },
      });
      // Anything else, such as an access token, must not be shown to another server.
      if (issued.raw["issued_token_type"] !== assertionType) {
        throw unusable("issued_token_type", "the identity provider issued no identity assertion (id-jag)");
      }
      // The assertion names scopes and resource.
      return endpoint.ask({ ...server, grant: { type: "jwt_bearer", assertion: issued.accessToken } });
    }
  }
}

/** Adds parameters to the token request, but for empty ones. */
function withParams(parties: TokenParties, params: Readonly<Record<string, string>>): TokenParties {
  const { provider } = parties;
  const { auth } = provider;
  if (auth.case !== "oauth2Client") throw new Error("the parties of an exchange are clients");
  const sent = Object.fromEntries(Object.entries(params).filter(([, value]) => value !== ""));
  const value = { ...auth.value, tokenParams: { ...auth.value.tokenParams, ...sent } };
  return { ...parties, provider: { ...provider, auth: { case: "oauth2Client", value } } };
}

/** Codes by which servers refuse one user: RFC 6749, OpenID Connect Core 3.1.2.6, RFC 9470. */
const aboutUser = new Set([
  ...["access_denied", "interaction_required", "login_required", "consent_required", "account_selection_required"],
  ...["insufficient_user_authentication", "unmet_authentication_requirements", "invalid_token"],
]);

/** Explains to the caller why there is no access token. */
export function faultOfExchange({ kind, code, retryAfterMs, status = 0 }: TokenFailure): Fault {
  if (kind === "grant_dead" || (status >= 400 && status < 500 && aboutUser.has(code))) {
    return Fault.withoutStack("on_behalf_refused", `the authorization server refuses this user or token (${code})`);
  }
  if (kind === "client_refused" || kind === "misconfigured") {
    const message = `the authorization server refuses the integration's client or request (${code})`;
    return Fault.withoutStack("integration_misconfigured", message);
  }
  return Fault.withoutStack("exchange_unavailable", `no access token could be obtained for the user (${code})`, {
    retryAfterSeconds: Math.max(1, Math.ceil((retryAfterMs ?? 0) / 1_000)),
  });
}
