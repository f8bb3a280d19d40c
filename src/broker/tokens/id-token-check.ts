import { createHmac, timingSafeEqual } from "node:crypto";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import {
  type AuthorizationServer,
  clockSkew,
  clockTolerance,
  customFetch,
  expectNoNonce,
  type JWK,
  jwksCache,
  OperationProcessingError,
  processAuthorizationCodeResponse,
  processRefreshTokenResponse,
  ResponseBodyError,
  UnsupportedOperationError,
  validateApplicationLevelSignature,
} from "oauth4webapi";
import { isObject } from "../../core/dialect/json-fields.ts";
import type { KeySetLocation } from "./authorization-server.ts";
import type { OAuth2Grant } from "./oauth2-grants.ts";
import type { TokenRequest } from "./token-endpoint.ts";
import { unusable } from "./token-failure.ts";

/** Keys of a JWK Set (RFC 7517). */
export type SigningKeys = readonly JWK[];

interface IdTokenCheck {
  readonly idToken: string;
  readonly location: KeySetLocation;
  readonly keys: SigningKeys;
  readonly request: TokenRequest & { readonly grant: OAuth2Grant };
  /** Current time by the provider's clock. */
  readonly nowMs: number;
}

/** Clock tolerance for OpenID Connect Core, section 3.1.3.7. */
const toleranceS = 60;

/** Algorithms of keys in a set (RFC 7518, section 3.1; RFC 8037), for providers whose metadata list none. */
const bySet = "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519".split(" ");

/** Returns whether an end user takes part, who can start again. */
export const isAuthorization = ({ type }: OAuth2Grant): boolean =>
  type === "authorization_code" || type === "device_code";

/**
 * Checks that an id_token is from the provider, for this client and currently valid. Throws `unusable` with a code for
 * the reason.
 */
export async function checkIdToken({ idToken, location, keys, request, nowMs }: IdTokenCheck): Promise<void> {
  const { integration, client: own, grant } = request;
  const client = {
    client_id: own?.id ?? integration.oauth?.clientId ?? "",
    [clockSkew]: Math.round((nowMs - Date.now()) / 1_000),
    [clockTolerance]: toleranceS,
  };
  // A new object for each check: the library caches keys by this object, and the keys are cached here instead.
  const server: AuthorizationServer = {
    issuer: location.issuer,
    jwks_uri: location.url,
    id_token_signing_alg_values_supported: [...(location.algorithms ?? bySet)],
  };
  // The library checks an id_token only in its place, a token endpoint response.
  const answer = Response.json({ access_token: "none", token_type: "bearer", id_token: idToken });
  try {
    if (isAuthorization(grant)) {
      const nonce = grant.type === "authorization_code" ? grant.nonce : undefined;
      await processAuthorizationCodeResponse(server, client, answer, {
        expectedNonce: nonce ?? expectNoNonce,
        requireIdToken: true,
      });
    } else {
      // Section 12.2: after a refresh the id_token may have the first nonce, or none.
      await processRefreshTokenResponse(server, client, answer);
    }
  } catch (error) {
    throw refusalFor(error, claimsWrong);
  }
  if (isBySecret(idToken)) {
    // Section 3.1.3.7, item 8. The metadata list this algorithm; otherwise the library would have rejected the token.
    const secret = own === undefined ? (request.secrets?.clientSecret ?? "") : own.secret;
    if (isSignedWith(idToken, secret)) return;
    throw unusable("id_token_signature", "the id_token's signature does not match the client secret");
  }
  try {
    const cache = { jwks: { keys: [...keys] }, uat: Math.floor(Date.now() / 1_000) };
    await validateApplicationLevelSignature(server, answer, {
      [jwksCache]: cache,
      [customFetch]: () => Promise.reject(new Error("the keys are known, so no request is allowed")),
    });
  } catch (error) {
    if (isRefusal(error)) throw refusalFor(error, signatureWrong);
    // The library imports a key unchecked and throws the engine's error for an invalid key.
    throw unusable("id_token_key", "the provider's key for the id_token cannot be used");
  }
}

const hashes: Readonly<Record<string, string>> = { HS256: "sha256", HS384: "sha384", HS512: "sha512" };

function algorithmOf(idToken: string): string {
  // The library has already parsed this header as JSON.
  const header: JsonObject = JSON.parse(Buffer.from(idToken.split(".")[0] ?? "", "base64url").toString());
  return String(header["alg"]);
}

const isBySecret = (idToken: string): boolean => Object.hasOwn(hashes, algorithmOf(idToken));

function isSignedWith(idToken: string, secret: string): boolean {
  const [head = "", payload = "", signature = ""] = idToken.split(".");
  // Anyone could sign with an empty key.
  if (secret === "") return false;
  const right = createHmac(hashes[algorithmOf(idToken)] ?? "", secret)
    .update(`${head}.${payload}`)
    .digest();
  const given = Buffer.from(signature, "base64url");
  return given.length === right.length && timingSafeEqual(given, right);
}

type IdTokenRefusal = OperationProcessingError | ResponseBodyError | UnsupportedOperationError;

const isRefusal = (error: unknown): error is IdTokenRefusal =>
  error instanceof OperationProcessingError ||
  error instanceof ResponseBodyError ||
  error instanceof UnsupportedOperationError;

/** Returns a failure without the library's message or cause: both contain values of the token. */
function refusalFor(error: unknown, codeOf: (refusal: IdTokenRefusal) => string): unknown {
  return isRefusal(error) ? unusable(codeOf(error), "the id_token could not be verified") : error;
}

const byClaim: Readonly<Record<string, string>> = {
  iss: "id_token_issuer",
  aud: "id_token_audience",
  azp: "id_token_audience",
  nonce: "id_token_nonce",
};

function claimsWrong({ code, cause }: IdTokenRefusal): string {
  if (code === "OAUTH_JWT_TIMESTAMP_CHECK_FAILED") return "id_token_expired";
  const claim: JsonValue | undefined = isObject(cause) ? cause["claim"] : undefined;
  return byClaim[typeof claim === "string" ? claim : ""] ?? "id_token_unreadable";
}

const signatureWrong = ({ code }: IdTokenRefusal): string =>
  code === "OAUTH_KEY_SELECTION_FAILED" ? "id_token_key" : "id_token_signature";
