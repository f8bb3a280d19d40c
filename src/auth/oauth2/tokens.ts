import type { JsonObject } from "@bufbuild/protobuf";

/** The result of a token request, independent of its format. */
export interface Tokens {
  readonly accessToken: string;
  /**
   * Undefined: none received. After a refresh, the refresh token that was sent then stays valid (RFC 6749, section 6).
   */
  readonly refreshToken: string | undefined;
  /** Expiry by our clock, counted from when the request was sent. Undefined: not stated, and no default is known. */
  readonly expiresAtMs: number | undefined;
  /** Expiry of the refresh token, if the response states it. */
  readonly refreshExpiresAtMs: number | undefined;
  /** Granted scopes, if the response states them. */
  readonly scopes: readonly string[] | undefined;
  /** The response as received, for `raw`. */
  readonly raw: JsonObject;
  /** Fields of the response that the provider's description stores with the connection. */
  readonly connectionConfig: JsonObject;
  readonly metadata: JsonObject;
  /** OpenID Connect ID token: verified if the provider's description names the keys, else as received. */
  readonly idToken: string | undefined;
  /**
   * PEM (PKCS #8): the key that the tokens are bound to (RFC 9449). Stored with them, encrypted: they are useless
   * without it. Undefined: not bound.
   */
  readonly dpopKey: string | undefined;
  /** Further tokens of the same authorization, by the names in the provider's description. */
  readonly furtherTokens?: Readonly<Record<string, NamedTokens>>;
}

/** A further token of an authorization. */
export type NamedTokens = Pick<Tokens, "accessToken" | "refreshToken" | "expiresAtMs" | "scopes">;

/** Classes of failed token requests. */
export type TokenFailureKind =
  /** Proof that the grant (refresh token, code) is no longer valid. */
  | "grant_dead"
  /** The provider rejects the client: affects every connection of the integration. */
  | "client_refused"
  /** Only the operator can fix the problem: a scope, a grant type, a URL that redirects. */
  | "misconfigured"
  /** Temporary, and the grant was certainly not consumed. */
  | "passing"
  /**
   * Maybe temporary, and the grant may have been consumed: it is unknown whether the provider processed the request.
   */
  | "uncertain"
  /** A successful response with unusable content. */
  | "unusable"
  /** Device flow: the user has not decided yet. */
  | "pending"
  /** Device flow: not decided yet, and polled too often. */
  | "slow_down";

/** Contains nothing of the request or response except codes that RFCs and providers' descriptions name. */
export class TokenFailure extends Error {
  override readonly name = "TokenFailure";
  readonly kind: TokenFailureKind;
  /** The provider's error code, or one of our own: at most 64 characters. */
  readonly code: string;
  /** Delay that the provider requests before the next attempt. */
  readonly retryAfterMs: number | undefined;
  /** Status of the response that refused the request; undefined if there was none. */
  readonly status: number | undefined;

  constructor(
    {
      kind,
      code,
      retryAfterMs,
      status,
    }: Pick<TokenFailure, "kind" | "code" | "retryAfterMs"> & { readonly status?: number },
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.kind = kind;
    this.code = code;
    this.retryAfterMs = retryAfterMs;
    this.status = status;
  }
}
