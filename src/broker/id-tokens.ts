import type { JsonObject } from "@bufbuild/protobuf";
import {
  allowInsecureRequests,
  clockSkew,
  clockTolerance,
  customFetch,
  expectNoNonce,
  getValidatedIdTokenClaims,
  OperationProcessingError,
  processAuthorizationCodeResponse,
  ResponseBodyError,
  UnsupportedOperationError,
  validateApplicationLevelSignature,
} from "oauth4webapi";
import type { Send } from "../base/sending.ts";
import type { World } from "../base/world.ts";
import type { AuthorizationServers } from "./authorization-server.ts";
import { responseOf } from "./oauth2-party.ts";
import { oauth2RulesOf } from "./oauth2-tokens.ts";
import type { IdTokenRequest } from "./token-endpoint.ts";
import { misconfigured, unusable } from "./token-failure.ts";

interface IdTokensOptions {
  readonly send: Send;
  readonly servers: AuthorizationServers;
  readonly world: World;
}

/** OpenID Connect Core, section 3.1.3.7. */
const toleranceS = 60;

/** The claims of an id_token, once it is known who made it, for whom and when. */
export function createIdTokens({ send, servers, world }: IdTokensOptions) {
  return async (request: IdTokenRequest): Promise<JsonObject> => {
    const { integration, client: own, idToken, nonce, signal } = request;
    const server = await servers.metadataOf(request, oauth2RulesOf(request));
    if (server?.jwks_uri === undefined) throw misconfigured("jwks_missing", "the provider's metadata names no keys");
    const client = {
      client_id: own?.id ?? integration.oauth?.clientId ?? "",
      [clockSkew]: Math.round((world.now() - Date.now()) / 1_000),
      [clockTolerance]: toleranceS,
    };
    // The library looks at an id_token where it comes: in an answer of the token endpoint.
    const answer = Response.json({ access_token: "none", token_type: "bearer", id_token: idToken });
    try {
      const read = await processAuthorizationCodeResponse(server, client, answer, {
        expectedNonce: nonce ?? expectNoNonce,
        requireIdToken: true,
      });
      await validateApplicationLevelSignature(server, answer, {
        [allowInsecureRequests]: true,
        async [customFetch](url, { method, headers }) {
          return responseOf(await send({ url, method, headers }, { signal }));
        },
      });
      const claims = getValidatedIdTokenClaims(read);
      if (claims === undefined) throw unusable("id_token", "the id_token has no claims");
      return claims as JsonObject;
    } catch (error) {
      if (!isRefusal(error)) throw error;
      // Neither its message nor itself as a cause: they hold what was found.
      throw unusable(reasons[error.code ?? ""] ?? "id_token", "the id_token is not one to believe");
    }
  };
}

type Refusal = OperationProcessingError | ResponseBodyError | UnsupportedOperationError;

const isRefusal = (error: unknown): error is Refusal =>
  error instanceof OperationProcessingError ||
  error instanceof ResponseBodyError ||
  error instanceof UnsupportedOperationError;

const reasons: Readonly<Record<string, string>> = {
  OAUTH_JWT_TIMESTAMP_CHECK_FAILED: "id_token_expired",
  OAUTH_JWT_CLAIM_COMPARISON_FAILED: "id_token_claim",
  OAUTH_KEY_SELECTION_FAILED: "id_token_key",
};
