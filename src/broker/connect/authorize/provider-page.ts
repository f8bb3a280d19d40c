import { randomBytes } from "node:crypto";
import { Fault } from "../../../base/fault.ts";
import { digestOf } from "../../../base/ids.ts";
import type { OAuth2Rules, TokenRules } from "../../../gen/latchkey/v1/provider_pb.ts";
import { filledFor } from "../../tokens/authorization-server.ts";
import { requireOwnIssuer } from "../../tokens/client-issuer.ts";
import { filledForBrowsers } from "../../tokens/filled-params.ts";
import { challengeOf } from "../../tokens/pkce.ts";
import type { TokenEndpoint, TokenParties } from "../../tokens/token-endpoint.ts";
import { type AuthorizationContext, defaultsOf, furtherScopesOf, scopesOf } from "./authorization-context.ts";
import { authorizationParameters, isReserved, withQuery } from "./authorization-request.ts";

/** Prepares the address of a provider's page, where an end user consents. */
export interface ProviderPage {
  /** The address, and what to remember until the browser returns. */
  prepare(request: ProviderPageRequest): Promise<PreparedPage>;
}

export interface ProviderPageRequest {
  readonly context: AuthorizationContext;
  readonly parties: TokenParties;
  readonly redirectUri: string;
  readonly userScopes: readonly string[];
  /** A value of undefined omits the provider's parameter. */
  readonly authorizationParams: Readonly<Record<string, string | undefined>>;
  /** Receives the generated secrets, so that logs of a failure redact them. */
  readonly secrets: string[];
}

/** Fields of the pending authorization, and the address. */
interface PreparedPage {
  readonly location: string;
  readonly stateHash: string;
  readonly scopes: string[];
  readonly codeVerifier?: string;
  readonly nonce?: string;
  readonly issuer?: string;
  readonly temporaryToken?: string;
  readonly temporarySecret?: string;
}

export function createProviderPage(tokenEndpoint: TokenEndpoint): ProviderPage {
  async function prepareOAuth2(request: ProviderPageRequest, rules: OAuth2Rules): Promise<PreparedPage> {
    const { context, parties, redirectUri, userScopes, authorizationParams, secrets } = request;
    requireUnreserved(authorizationParams, rules);
    requireOwnIssuer(parties);
    const state = unguessable();
    const codeVerifier = rules.noPkce ? "" : unguessable();
    const scopes = scopesOf(context, rules, userScopes);
    const nonce = scopes.includes("openid") ? unguessable() : "";
    secrets.push(...[state, codeVerifier, nonce].filter((one) => one !== ""));
    const { url, pushedUrl } = await tokenEndpoint.authorization(parties);
    if (url === "") throw new Fault("integration_misconfigured", "its provider has no authorization URL");
    const own = { ...rules, authorizationParams: filledForBrowsers(rules.authorizationParams, parties) };
    const parameters = authorizationParameters(own, {
      clientId: parties.integration.oauth?.clientId ?? "",
      redirectUri,
      state,
      challenge: codeVerifier === "" ? undefined : challengeOf(codeVerifier),
      nonce: nonce === "" ? undefined : nonce,
      scopes,
      furtherScopes: furtherScopesOf(context, rules),
      isFurther: context.existing !== undefined,
      params: { ...authorizationParams, ...defaultsOf(context)?.authorizationParams },
    });
    return {
      stateHash: digestOf(state),
      codeVerifier,
      nonce,
      issuer: context.provider.mcp === undefined ? "" : rules.issuer,
      scopes,
      location: withQuery(url, pushedUrl === "" ? parameters : await pushed(parties, parameters)),
    };
  }

  async function pushed(parties: TokenParties, { client_id: clientId = "", ...parameters }: Record<string, string>) {
    const { requestUri } = await tokenEndpoint.push({ ...parties, parameters });
    return { client_id: clientId, request_uri: requestUri };
  }

  async function prepareOAuth1(url: string, parties: TokenParties, callback: string): Promise<PreparedPage> {
    const { token, secret } = await tokenEndpoint.requestToken({ ...parties, callback });
    return {
      stateHash: digestOf(token),
      temporaryToken: token,
      temporarySecret: secret,
      scopes: [],
      location: withQuery(url, { oauth_token: token }),
    };
  }

  /** The page where an administrator installs the app; its answer carries the state. */
  function prepareInstallation(rules: TokenRules, parties: TokenParties, secrets: string[]): PreparedPage {
    const state = unguessable();
    secrets.push(state);
    const location = withQuery(installUrlOf(rules, parties), { state });
    return { stateHash: digestOf(state), scopes: [], location };
  }

  return {
    async prepare(request) {
      const { context, parties, redirectUri } = request;
      const { auth } = context.provider;
      if (auth.case === "oauth2") return prepareOAuth2(request, auth.value);
      if (auth.case === "app") return prepareInstallation(auth.value, parties, request.secrets);
      if (auth.case !== "oauth1") throw new Error("only OAuth has a page at the provider");
      return prepareOAuth1(filledFor(parties, auth.value.authorizationUrl), parties, redirectUri);
    },
  };
}

/** Fills the page of an app. A browser carries it, so that no secret is part of it. */
function installUrlOf({ installUrl }: TokenRules, { integration }: TokenParties): string {
  const values: Readonly<Record<string, string>> = {
    ...integration.settings,
    clientId: integration.oauth?.clientId ?? "",
  };
  return installUrl.replaceAll(/\$\{integration\.(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    if (value !== undefined && value !== "" && !/^\.{1,2}$/.test(value)) return encodeURIComponent(value);
    throw new Fault("integration_misconfigured", `it has no value for the setting ${name}`);
  });
}

function requireUnreserved(params: ProviderPageRequest["authorizationParams"], rules: OAuth2Rules): void {
  const reserved = Object.keys(params).filter((name) => isReserved(name, rules));
  if (reserved.length === 0) return;
  const mistakes = reserved.map((name) => ({
    path: ["authorization_params", name],
    message: "cannot be set by a page",
  }));
  throw new Fault("invalid_query_params", "the authorization parameters are not valid", { mistakes });
}

/** 256 random bits in 43 characters, the minimum length of a PKCE verifier (RFC 7636, section 4.1). */
const unguessable = (): string => randomBytes(32).toString("base64url");
