import { create } from "@bufbuild/protobuf";
import {
  type AuthorizationServer,
  allowInsecureRequests,
  authorizationCodeGrantRequest,
  type Client,
  type ClientAuth,
  ClientSecretBasic,
  ClientSecretPost,
  calculatePKCECodeChallenge,
  customFetch,
  discoveryRequest,
  getValidatedIdTokenClaims,
  type JsonObject,
  None,
  processAuthorizationCodeResponse,
  processDiscoveryResponse,
  processUserInfoResponse,
  userInfoRequest,
  validateApplicationLevelSignature,
  validateAuthResponse,
} from "oauth4webapi";
import type { SendSmallRequest } from "../../base/small-requests.ts";
import { everyone, type IdentityProvider } from "../../core/identity-provider.ts";
import {
  type PendingSignIn,
  type SignedInPerson,
  SignedInPersonSchema,
} from "../../gen/latchkey/stored/v1/stored_pb.ts";

/** Speaks to an OpenID Connect provider: code with PKCE and nonce. */
export interface OidcClient {
  /** Returns the address at the provider to sign in at. */
  authorizationUrl(begun: BegunSignIn): Promise<string>;
  /**
   * Exchanges the code, and returns who signed in. The ID token is checked: issuer, audience, expiry, nonce, and its
   * signature too.
   */
  personIn(query: URLSearchParams, pending: PendingSignIn): Promise<SignedInPerson>;
}

export interface BegunSignIn extends Pick<PendingSignIn, "codeVerifier" | "nonce" | "redirectUri"> {
  readonly state: string;
}

interface OidcClientOptions {
  readonly provider: IdentityProvider;
  /** Sends requests to the provider, to addresses that are allowed. */
  readonly send: SendSmallRequest;
}

const discoveredForMs = 600_000;
const deadlineMs = 10_000;
const maxGroups = 100;

export function createOidcClient({ provider, send }: OidcClientOptions): OidcClient {
  const issuer = new URL(provider.issuer);
  const client: Client = { client_id: provider.clientId };
  // The relay decides which addresses are allowed, and where plain HTTP is.
  const transport = { [allowInsecureRequests]: true, [customFetch]: fetchThrough(send) } as const;
  let discovered: { readonly server: AuthorizationServer; readonly atMs: number } | undefined;

  async function discover(): Promise<AuthorizationServer> {
    if (discovered !== undefined && performance.now() - discovered.atMs < discoveredForMs) return discovered.server;
    const server = await processDiscoveryResponse(issuer, await discoveryRequest(issuer, transport));
    discovered = { server, atMs: performance.now() };
    return server;
  }

  function authentication({ token_endpoint_auth_methods_supported: methods = [] }: AuthorizationServer): ClientAuth {
    if (provider.clientSecret === undefined) return None();
    const wantsPost = !methods.includes("client_secret_basic") && methods.includes("client_secret_post");
    return wantsPost ? ClientSecretPost(provider.clientSecret) : ClientSecretBasic(provider.clientSecret);
  }

  async function personIn(query: URLSearchParams, pending: PendingSignIn): Promise<SignedInPerson> {
    const server = await discover();
    const parameters = validateAuthResponse(server, client, query, query.get("state") ?? "");
    const response = await authorizationCodeGrantRequest(
      server,
      client,
      authentication(server),
      parameters,
      pending.redirectUri,
      pending.codeVerifier,
      transport,
    );
    const tokens = await processAuthorizationCodeResponse(server, client, response, {
      expectedNonce: pending.nonce,
      requireIdToken: true,
    });
    await validateApplicationLevelSignature(server, response, transport);
    const claims = getValidatedIdTokenClaims(tokens);
    if (claims === undefined) throw new Error("the response has no ID token");
    const isWhole = provider.groupsClaim in claims && provider.nameClaim in claims;
    const more =
      isWhole || server.userinfo_endpoint === undefined
        ? {}
        : await processUserInfoResponse(
            server,
            client,
            claims.sub,
            await userInfoRequest(server, client, tokens.access_token, transport),
          );
    return personOf({ ...more, ...claims }, provider);
  }

  async function authorizationUrl({ state, nonce, redirectUri, codeVerifier }: BegunSignIn): Promise<string> {
    const url = new URL((await discover()).authorization_endpoint ?? provider.issuer);
    const parameters = {
      client_id: provider.clientId,
      response_type: "code",
      redirect_uri: redirectUri,
      scope: provider.scopes.join(" "),
      state,
      nonce,
      code_challenge: await calculatePKCECodeChallenge(codeVerifier),
      code_challenge_method: "S256",
    };
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
    return url.href;
  }

  return { authorizationUrl, personIn };
}

/**
 * Returns the person of these claims. The name has an `@`, so that it is never that of a key. An address that the
 * provider has not verified could be that of another person.
 */
function personOf(claims: JsonObject & { readonly sub?: string }, provider: IdentityProvider): SignedInPerson {
  const { sub: subject = "", email_verified: isVerified } = claims;
  const claim = claims[provider.nameClaim];
  const isTrusted =
    typeof claim === "string" && claim !== "" && (provider.nameClaim !== "email" || isVerified !== false);
  const named = isTrusted ? claim : subject;
  const text = named.replaceAll(/[^\x21-\x7e]+/g, "_").slice(0, 200);
  const groups = groupsIn(claims[provider.groupsClaim]);
  const known = new Set(provider.grants.map(({ group }) => group));
  return create(SignedInPersonSchema, {
    issuer: provider.issuer,
    subject,
    name: text.includes("@") ? text : `${text}@${new URL(provider.issuer).host}`,
    groups: [everyone, ...groups.filter((group) => group !== everyone && known.has(group))].slice(0, maxGroups),
  });
}

/** Some providers give a list, others one text. */
function groupsIn(claim: unknown): readonly string[] {
  if (typeof claim === "string") return claim.split(/[ ,]+/);
  return Array.isArray(claim) ? claim.filter((one) => typeof one === "string") : [];
}

interface HttpRequest {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** Sends the library's requests through the relay. */
const fetchThrough =
  (send: SendSmallRequest) =>
  async (url: string, { method, headers, body }: HttpRequest): Promise<Response> => {
    const text = body === undefined || body === null ? undefined : String(body);
    const answer = await send({ url, method, headers: { ...headers }, body: text }, { deadlineMs });
    const given = new Headers();
    for (let i = 0; i + 1 < answer.fields.length; i += 2)
      given.append(answer.fields[i] ?? "", answer.fields[i + 1] ?? "");
    for (const name of ["content-encoding", "content-length", "transfer-encoding"]) given.delete(name);
    const hasBody = answer.body.length > 0;
    return new Response(hasBody ? new Uint8Array(answer.body) : null, { status: answer.status, headers: given });
  };
