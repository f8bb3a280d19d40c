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

/** Of a JWK Set (RFC 7517). */
export type SigningKeys = readonly JWK[];

interface IdTokenCheck {
  readonly idToken: string;
  readonly place: KeySetLocation;
  readonly keys: SigningKeys;
  readonly request: TokenRequest & { readonly grant: OAuth2Grant };
  /** By the provider's clock. */
  readonly nowMs: number;
}

/** OpenID Connect Core, section 3.1.3.7. */
const toleranceS = 60;

/** What is signed by a key of a set (RFC 7518, section 3.1; RFC 8037), where metadata do not say by what. */
const bySet = "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519".split(" ");

/** An end user is there, who can begin again. */
export const isAuthorization = ({ type }: OAuth2Grant): boolean =>
  type === "authorization_code" || type === "device_code";

/** Whether it is the provider's, the client's and of this moment. Throws `unusable`, with a code that says what is wrong. */
export async function checkIdToken({ idToken, place, keys, request, nowMs }: IdTokenCheck): Promise<void> {
  const { integration, client: own, grant } = request;
  const client = {
    client_id: own?.id ?? integration.oauth?.clientId ?? "",
    [clockSkew]: Math.round((nowMs - Date.now()) / 1_000),
    [clockTolerance]: toleranceS,
  };
  // Made for this one: the library keeps keys by it, and those are kept here.
  const server: AuthorizationServer = {
    issuer: place.issuer,
    jwks_uri: place.url,
    id_token_signing_alg_values_supported: [...(place.algorithms ?? bySet)],
  };
  // The library looks at an id_token where it comes: in an answer of the token endpoint.
  const answer = Response.json({ access_token: "none", token_type: "bearer", id_token: idToken });
  try {
    if (isAuthorization(grant)) {
      const nonce = grant.type === "authorization_code" ? grant.nonce : undefined;
      await processAuthorizationCodeResponse(server, client, answer, {
        expectedNonce: nonce ?? expectNoNonce,
        requireIdToken: true,
      });
    } else {
      // Section 12.2: with a renewal there may be the first one's nonce, or none.
      await processRefreshTokenResponse(server, client, answer);
    }
  } catch (error) {
    throw refusalFor(error, claimsWrong);
  }
  if (isBySecret(idToken)) {
    // Section 3.1.3.7, 8. The metadata name it, or the library would have refused it.
    const secret = own === undefined ? (request.secrets?.clientSecret ?? "") : own.secret;
    if (isSignedWith(idToken, secret)) return;
    throw unusable("id_token_signature", "the id_token is not signed with the client's secret");
  }
  try {
    const cache = { jwks: { keys: [...keys] }, uat: Math.floor(Date.now() / 1_000) };
    await validateApplicationLevelSignature(server, answer, {
      [jwksCache]: cache,
      [customFetch]: () => Promise.reject(new Error("the keys are at hand")),
    });
  } catch (error) {
    if (isRefusal(error)) throw refusalFor(error, signatureWrong);
    // The library imports a key as it finds it, and says what the engine says of one that is none.
    throw unusable("id_token_key", "the provider's key for the id_token cannot be used");
  }
}

const hashes: Readonly<Record<string, string>> = { HS256: "sha256", HS384: "sha384", HS512: "sha512" };

function algorithmOf(idToken: string): string {
  // The library has read it as JSON before.
  const header: JsonObject = JSON.parse(Buffer.from(idToken.split(".")[0] ?? "", "base64url").toString());
  return String(header["alg"]);
}

const isBySecret = (idToken: string): boolean => Object.hasOwn(hashes, algorithmOf(idToken));

function isSignedWith(idToken: string, secret: string): boolean {
  const [head = "", payload = "", signature = ""] = idToken.split(".");
  // An empty key would be everybody's.
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

/** Neither its message nor itself as a cause: they hold what was found. */
function refusalFor(error: unknown, codeOf: (refusal: IdTokenRefusal) => string): unknown {
  return isRefusal(error) ? unusable(codeOf(error), "the id_token is not one to believe") : error;
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
