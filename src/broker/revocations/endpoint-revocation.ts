import { TokenFailure } from "../../auth/oauth2/tokens.ts";
import type { World } from "../../base/world.ts";
import { TokenRevocation_Result as Result, type TokenRevocation } from "../../gen/latchkey/v1/connection_pb.ts";
import type { TokenEndpoint } from "../tokens/token-endpoint.ts";
import { failureOf, type RevocationFailure } from "./attempt-failure.ts";
import { type RevokeTokens, resultOf } from "./attempt-request.ts";
import { type GrantToken, ownClientOf, tokensToRevoke } from "./grant-tokens.ts";

/** Short, so that a provider that hangs is tried again within a minute. */
export const revocationDeadlineMs = 15_000;

interface EndpointRevocationOptions {
  readonly endpoint: Pick<TokenEndpoint, "revoke">;
  readonly world: World;
}

/** Revokes token by token (RFC 7009), the refresh token first: most providers end its access tokens with it. */
export function createEndpointRevocation({ endpoint, world }: EndpointRevocationOptions): RevokeTokens {
  return async (live, request) => {
    const { integration, secrets, provider, credentials, connection } = live;
    const connectionConfig = { ...integration.connectionDefaults, ...connection.connectionConfig };
    const client = ownClientOf(credentials);
    const values = new Map(tokensToRevoke(credentials, "endpoint", world.now()).map((one) => [one.name, one]));
    const results: TokenRevocation[] = [];
    let failure: RevocationFailure | undefined;
    for (const known of request.tokens) {
      const token = values.get(known.token as GrantToken["name"]);
      if (known.result !== Result.UNSPECIFIED) results.push(known);
      // The access token has expired since.
      else if (token === undefined) results.push(resultOf(known, Result.REVOKED, "expired"));
      else if (failure !== undefined) results.push(known);
      else {
        try {
          const signal = AbortSignal.any([request.signal, AbortSignal.timeout(revocationDeadlineMs)]);
          const { name: kind, value } = token;
          const parties = { provider, integration, secrets, client, connectionConfig, signal };
          const isRevoked = await endpoint.revoke({ ...parties, token: value, kind });
          results.push(resultOf(known, isRevoked ? Result.REVOKED : Result.NOT_SUPPORTED));
        } catch (error) {
          // RFC 7009, section 2.2.1: the provider does not revoke tokens of this type.
          if (error instanceof TokenFailure && error.code === "unsupported_token_type") {
            results.push(resultOf(known, Result.NOT_SUPPORTED, error.code));
            continue;
          }
          failure = failureOf(error);
          if (failure === undefined) throw error;
          results.push(known);
        }
      }
    }
    return { tokens: results, failure };
  };
}
