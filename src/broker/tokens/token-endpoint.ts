import type { JsonObject } from "@bufbuild/protobuf";
import type { Tokens } from "../../auth/oauth2/tokens.ts";
import type { Integration, IntegrationSecrets } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";

/**
 * Asks a provider for tokens, and for what goes before and after them. The only thing that sends a client's secret, a
 * code or a refresh token anywhere. Everything here rejects with `TokenFailure`, unless it says otherwise.
 */
export interface TokenEndpoint {
  /**
   * One request, or two where the protocol wants it: a DPoP nonce, a clock that is not the provider's. An id_token that
   * comes along is verified where it is known by which keys: a wrong one is `unusable` of an authorization, and left
   * out of a renewal.
   */
  ask(request: TokenRequest): Promise<Tokens>;
  /** Where the end user is sent, and what the answer is held to. Asks for metadata only where the provider has some. */
  authorization(request: TokenParties): Promise<AuthorizationEndpoint>;
  /** Puts an authorization request down beforehand (RFC 9126). What is sent to the browser is `request_uri` alone. */
  push(request: PushRequest): Promise<PushedRequest>;
  /** A code to show to the end user (RFC 8628). */
  beginDevice(request: ScopedRequest): Promise<DeviceCode>;
  /** RFC 7009. False: the provider has no such endpoint, and the token lives on. */
  revoke(request: RevocationRequest): Promise<boolean>;
  /** OAuth 1.0a: temporary credentials (RFC 5849, section 2.1). */
  requestToken(request: RequestTokenRequest): Promise<OAuth1Pair>;
  /** OAuth 1.0a: the token (section 2.3). */
  accessToken(request: AccessTokenRequest): Promise<OAuth1Pair>;
}

/** Who asks whom. */
export interface TokenParties {
  readonly provider: Provider;
  readonly integration: Integration;
  readonly secrets: IntegrationSecrets | undefined;
  /** This connection's own OAuth app, in place of the integration's. */
  readonly client?: OwnClient | undefined;
  /** For templates in the provider's addresses. */
  readonly connectionConfig: JsonObject;
  readonly signal?: AbortSignal | undefined;
}

export interface TokenRequest extends TokenParties {
  readonly grant: TokenGrant;
  /** The key that this connection's tokens are bound to, as `Tokens.dpopKey` gave it. */
  readonly dpopKey?: string | undefined;
  /**
   * It goes over the connection that another one has come back on, where there is one, which costs no handshake; for
   * whoever knows what to do when nobody can say whether it arrived.
   */
  readonly mayFollow?: boolean | undefined;
}

export interface AuthorizationEndpoint {
  /** Empty: the provider has none. */
  readonly url: string;
  /** Empty: the provider has none, and authorization requests go with the browser. */
  readonly pushedUrl: string;
  /** Compared with `iss` (RFC 9207); empty: not known. */
  readonly issuer: string;
  /** An answer without `iss` is refused. */
  readonly issuerAlways: boolean;
}

export interface PushRequest extends TokenParties {
  /** All of the authorization request, `client_id` aside. */
  readonly parameters: Readonly<Record<string, string>>;
}

export interface PushedRequest {
  readonly requestUri: string;
  readonly expiresAtMs: number;
}

export interface ScopedRequest extends TokenParties {
  /** None: the integration's, else the provider's default. */
  readonly scopes: readonly string[];
}

export interface DeviceCode {
  readonly deviceCode: string;
  readonly userCode: string;
  /** `http` or `https`, to be shown. */
  readonly verificationUri: string;
  /** The same with the code in it. */
  readonly verificationUriComplete: string | undefined;
  readonly expiresAtMs: number;
  /** Between polls; `slow_down` adds five seconds for good. */
  readonly intervalMs: number;
}

export interface RevocationRequest extends TokenParties {
  readonly token: string;
  readonly kind: "refresh_token" | "access_token";
}

export interface RequestTokenRequest extends TokenParties {
  /** Where the end user comes back to, or `oob`. */
  readonly callback: string;
}

export interface AccessTokenRequest extends TokenParties {
  readonly temporary: Pick<OAuth1Pair, "token" | "secret">;
  readonly verifier: string;
}

export interface OAuth1Pair {
  readonly token: string;
  readonly secret: string;
  /** The answer as it came, for `raw`. */
  readonly raw: JsonObject;
}

export interface OwnClient {
  readonly id: string;
  readonly secret: string;
  /** PEM, where the client authenticates by mutual TLS, or its tokens are bound to it (RFC 8705). */
  readonly certificate?: string | undefined;
  /** PEM: of the certificate; without one, what signs the client's assertions. */
  readonly privateKey?: string | undefined;
}

export type TokenGrant =
  | {
      readonly type: "authorization_code";
      readonly code: string;
      readonly redirectUri: string;
      /** Undefined for a provider that cannot do PKCE. */
      readonly codeVerifier: string | undefined;
      /** What the authorization request had; undefined: it had none, and one in the id_token is refused. */
      readonly nonce: string | undefined;
    }
  | { readonly type: "refresh_token"; readonly refreshToken: string }
  | { readonly type: "client_credentials"; readonly scopes: readonly string[] }
  | { readonly type: "device_code"; readonly deviceCode: string }
  /** RFC 8693. */
  | { readonly type: "token_exchange"; readonly subjectToken: string; readonly subjectTokenType: string }
  /** Facebook's family: a token that still lives is exchanged for one that lives longer. */
  | { readonly type: "renewal"; readonly accessToken: string }
  /** What `TokenRules` describe: an app's or a two-step's own request, filled in with the connection's fields. */
  | { readonly type: "described"; readonly fields: JsonObject };
