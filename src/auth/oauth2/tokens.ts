import type { JsonObject } from "@bufbuild/protobuf";

/** What a token endpoint gave, whatever form it has there. */
export interface Tokens {
  readonly accessToken: string;
  /** Undefined: none came. After a renewal, the one that was sent is still the one to keep (RFC 6749, section 6). */
  readonly refreshToken: string | undefined;
  /** By our clock, counted from when the request was sent. Undefined: nobody said, and the provider has no default. */
  readonly expiresAtMs: number | undefined;
  /** Of the refresh token, where the answer says so. */
  readonly refreshExpiresAtMs: number | undefined;
  /** What was granted, where the answer says so. */
  readonly scopes: readonly string[] | undefined;
  /** The answer as it came, for `raw`. */
  readonly raw: JsonObject;
  /** Fields of the answer that the provider's description files with the connection. */
  readonly connectionConfig: JsonObject;
  readonly metadata: JsonObject;
  /** Of OpenID Connect: verified where the provider's description says by which keys, else as it came. */
  readonly idToken: string | undefined;
  /**
   * PEM (PKCS #8): the key that the tokens are bound to (RFC 9449). Stored, and sealed, with them: without it they are
   * good for nothing. Undefined: they are bound to none.
   */
  readonly dpopKey: string | undefined;
}

/** What came of asking, when it was no token. */
export type TokenFailureKind =
  /** Proof that the grant (refresh token, code) is good for nothing any more. */
  | "grant_dead"
  /** The provider does not take the client: every connection of the integration has the same trouble. */
  | "client_refused"
  /** Nobody but the operator can mend it: a scope, a grant type, an address that redirects. */
  | "misconfigured"
  /** It will pass, and the grant was certainly not used up. */
  | "passing"
  /** It may pass, and the grant may have been used up: whether the provider acted on the request is not known. */
  | "uncertain"
  /** It answered as if all were well, with what cannot be used. */
  | "unusable"
  /** Device flow: the user has not decided yet. */
  | "pending"
  /** The same, and it was asked too often. */
  | "slow_down";

/** Says nothing of what was sent or received beyond the codes that RFCs and providers' descriptions name. */
export class TokenFailure extends Error {
  override readonly name = "TokenFailure";
  readonly kind: TokenFailureKind;
  /** The provider's error code, or a word of ours: at most 64 characters of a code. */
  readonly code: string;
  /** The provider wants to be left alone for so long. */
  readonly retryAfterMs: number | undefined;

  constructor(
    { kind, code, retryAfterMs }: Pick<TokenFailure, "kind" | "code" | "retryAfterMs">,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.kind = kind;
    this.code = code;
    this.retryAfterMs = retryAfterMs;
  }
}
