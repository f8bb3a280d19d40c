import type { JsonObject } from "@bufbuild/protobuf";
import type { Tokens } from "../../auth/oauth2/tokens.ts";
import type { Integration, IntegrationSecrets } from "../../gen/latchkey/v1/integration_pb.ts";
import type { InstallationProof, Provider } from "../../gen/latchkey/v1/provider_pb.ts";

/**
 * Requests tokens from a provider, and what precedes and follows them. The only code that sends a client's secret, a
 * code or a refresh token. All methods reject with `TokenFailure`, unless noted otherwise.
 */
export interface TokenEndpoint {
  /**
   * Sends one request, or a second if the protocol needs it: for a DPoP nonce, or after a clock difference. Verifies an
   * id_token in the response if its keys are known. A wrong id_token is `unusable` for an authorization, and dropped
   * for a refresh.
   */
  ask(request: TokenRequest): Promise<Tokens>;
  /** Returns the authorization URL and the checks for its response. Fetches metadata only if the provider has some. */
  authorization(request: TokenParties): Promise<AuthorizationEndpoint>;
  /** Pushes an authorization request (RFC 9126). The browser then gets only the `request_uri`. */
  push(request: PushRequest): Promise<PushedRequest>;
  /** Requests a code to show to the end user (RFC 8628). */
  beginDevice(request: ScopedRequest): Promise<DeviceCode>;
  /**
   * Finds a value in the list of what the end user may use: exchanges the code of a callback for a token of the end
   * user, which only reads the list. Returns the item with the value; undefined if there is none.
   */
  installation(request: ClaimedInstallation): Promise<JsonObject | undefined>;
  /** Revokes a token (RFC 7009). Returns false if the provider has no such endpoint; the token then stays valid. */
  revoke(request: RevocationRequest): Promise<boolean>;
  /** Requests temporary credentials of OAuth 1.0a (RFC 5849, section 2.1). */
  requestToken(request: RequestTokenRequest): Promise<OAuth1Pair>;
  /** Requests the token of OAuth 1.0a (section 2.3). */
  accessToken(request: AccessTokenRequest): Promise<OAuth1Pair>;
}

/** The client and the provider of a token request. */
export interface TokenParties {
  readonly provider: Provider;
  readonly integration: Integration;
  readonly secrets: IntegrationSecrets | undefined;
  /** This connection's own OAuth app, in place of the integration's. */
  readonly client?: OwnClient | undefined;
  /** Values for templates in the provider's addresses. */
  readonly connectionConfig: JsonObject;
  readonly signal?: AbortSignal | undefined;
}

export interface TokenRequest extends TokenParties {
  readonly grant: TokenGrant;
  /** The further token that a refresh is for; undefined: the main one. */
  readonly further?: string | undefined;
  /** The key that this connection's tokens are bound to, from `Tokens.dpopKey`. */
  readonly dpopKey?: string | undefined;
  /**
   * Allows reusing a connection that has just answered another request, which saves a handshake. Only for callers that
   * can handle a request of which it is unknown whether it arrived.
   */
  readonly mayFollow?: boolean | undefined;
}

export interface ClaimedInstallation extends TokenParties {
  readonly proof: InstallationProof;
  readonly code: string;
  readonly value: string;
}

export interface AuthorizationEndpoint {
  /** Empty if the provider has none. */
  readonly url: string;
  /** Empty if the provider has none; authorization requests then go through the browser. */
  readonly pushedUrl: string;
  /** Compared with `iss` (RFC 9207); empty if unknown. */
  readonly issuer: string;
  /** Whether a response without `iss` is rejected. */
  readonly issuerAlways: boolean;
}

export interface PushRequest extends TokenParties {
  /** All parameters of the authorization request, except `client_id`. */
  readonly parameters: Readonly<Record<string, string>>;
}

export interface PushedRequest {
  readonly requestUri: string;
  readonly expiresAtMs: number;
}

export interface ScopedRequest extends TokenParties {
  /** Empty for the integration's scopes, or else the provider's default. */
  readonly scopes: readonly string[];
}

export interface DeviceCode {
  readonly deviceCode: string;
  readonly userCode: string;
  /** `http` or `https` URL to show. */
  readonly verificationUri: string;
  /** The same URL with the code in it. */
  readonly verificationUriComplete: string | undefined;
  readonly expiresAtMs: number;
  /** Polling interval; `slow_down` adds five seconds permanently. */
  readonly intervalMs: number;
}

export interface RevocationRequest extends TokenParties {
  readonly token: string;
  readonly kind: "refresh_token" | "access_token";
}

export interface RequestTokenRequest extends TokenParties {
  /** URL that the end user returns to, or `oob`. */
  readonly callback: string;
}

export interface AccessTokenRequest extends TokenParties {
  readonly temporary: Pick<OAuth1Pair, "token" | "secret">;
  readonly verifier: string;
}

export interface OAuth1Pair {
  readonly token: string;
  readonly secret: string;
  /** The response as received, for `raw`. */
  readonly raw: JsonObject;
}

export interface OwnClient {
  readonly id: string;
  readonly secret: string;
  /**
   * PEM certificate, if the client authenticates by mutual TLS or its tokens are bound to the certificate (RFC 8705).
   */
  readonly certificate?: string | undefined;
  /** PEM key of the certificate; without a certificate, the key that signs the client's assertions. */
  readonly privateKey?: string | undefined;
}

export type TokenGrant =
  | {
      readonly type: "authorization_code";
      readonly code: string;
      readonly redirectUri: string;
      /** Undefined for a provider that does not support PKCE. */
      readonly codeVerifier: string | undefined;
      /**
       * Nonce of the authorization request; undefined if it had none, in which case a nonce in the id_token is
       * rejected.
       */
      readonly nonce: string | undefined;
    }
  | { readonly type: "refresh_token"; readonly refreshToken: string }
  | { readonly type: "client_credentials"; readonly scopes: readonly string[] }
  | { readonly type: "device_code"; readonly deviceCode: string }
  /** RFC 8693. */
  | {
      readonly type: "token_exchange";
      readonly subjectToken: string;
      readonly subjectTokenType: string;
      /** What is requested is no access token, but an assertion for another authorization server. */
      readonly isForAssertion?: boolean;
    }
  /** RFC 7523, section 2.1. */
  | { readonly type: "jwt_bearer"; readonly assertion: string }
  /** Used by Facebook and its family: a token that is still valid is exchanged for one with a longer lifetime. */
  | { readonly type: "renewal"; readonly accessToken: string }
  /** A request that `TokenRules` describe, of an app or a two-step flow, filled with the connection's fields. */
  | { readonly type: "described"; readonly fields: JsonObject };
