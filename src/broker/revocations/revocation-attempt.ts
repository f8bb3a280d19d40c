import type { World } from "../../base/world.ts";
import { TokenRevocation_Result as Result } from "../../gen/latchkey/v1/connection_pb.ts";
import type { AskWithConnection } from "../credentials/connection-request.ts";
import type { LiveConnection } from "../credentials/live-connections.ts";
import type { TokenEndpoint } from "../tokens/token-endpoint.ts";
import { failureOf } from "./attempt-failure.ts";
import { allOf, type RevocationAttempt, type RevocationOutcome } from "./attempt-request.ts";
import { createDescribedRevocation } from "./described-revocation.ts";
import { createEndpointRevocation } from "./endpoint-revocation.ts";
import { revocationWayOf } from "./grant-tokens.ts";

export type AttemptRevocation = (attempt: RevocationAttempt) => Promise<RevocationOutcome>;

interface AttemptOptions {
  readonly tokens: Pick<TokenEndpoint, "revoke" | "ask">;
  readonly askWith: AskWithConnection;
  readonly world: World;
}

/** Returns the function that makes one attempt, in the way that the provider's description names. */
export function createRevocationAttempt({ tokens: endpoint, askWith, world }: AttemptOptions): AttemptRevocation {
  const atEndpoint = createEndpointRevocation({ endpoint, world });
  const byRequest = createDescribedRevocation({ endpoint, askWith, world });

  return async (request) => {
    const live = liveOf(request);
    const way = revocationWayOf(request.provider);
    // The provider's description has changed since.
    if (live === undefined || way === "unsupported") return allOf(request, Result.NOT_SUPPORTED);
    try {
      return await (way === "endpoint" ? atEndpoint(live, request) : byRequest(live, request));
    } catch (error) {
      const failure = failureOf(error);
      if (failure === undefined) throw error;
      return { tokens: request.tokens, failure };
    }
  };
}

function liveOf({ task, provider }: RevocationAttempt): LiveConnection | undefined {
  const { connection, credentials, integration, secrets } = task;
  if (connection === undefined || credentials === undefined || integration === undefined) return undefined;
  return { connection, credentials, integration, secrets, provider };
}
