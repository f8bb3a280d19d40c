import { TokenFailure, type Tokens } from "../../../auth/oauth2/tokens.ts";
import type { TokenRefresh } from "../../../auth/token-refresh.ts";
import type { World } from "../../../base/world.ts";
import type { TokenEndpoint, TokenRequest } from "../../tokens/token-endpoint.ts";
import type { RefreshTarget } from "./refresh-target.ts";

/** Requests new tokens for a connection. A failed request is a result like any other. */
export type RequestTokens = (
  renewal: TokenRefresh,
  target: RefreshTarget,
  options: Pick<TokenRequest, "mayFollow">,
) => Promise<Tokens | TokenFailure>;

interface TokenRequestsOptions {
  readonly tokens: TokenEndpoint;
  readonly metrics: World["metrics"];
}

export function createTokenRequests({ tokens, metrics }: TokenRequestsOptions): RequestTokens {
  return async ({ grant, client, dpopKey, further }, { provider, integration, secrets, known }, { mayFollow }) => {
    const since = performance.now();
    const connectionConfig = { ...integration.connectionDefaults, ...known.connection.value.connectionConfig };
    metrics.refreshesOpen.inc();
    try {
      const request = { provider, integration, secrets, client, connectionConfig, grant, dpopKey, further, mayFollow };
      return await tokens.ask(request);
    } catch (error) {
      if (error instanceof TokenFailure) return error;
      throw error;
    } finally {
      metrics.refreshesOpen.dec();
      metrics.refreshSeconds.observe((performance.now() - since) / 1_000);
    }
  };
}
