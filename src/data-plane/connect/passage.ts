import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { returnTarget } from "../../core/return-target.ts";
import type { ConnectSession } from "../../gen/latchkey/v1/connect_session_pb.ts";
import type { Passage } from "../pages/connect-page.ts";
import type { QueryReader } from "../server/query.ts";

/** Reads the passage of a session's page, and checks its addresses against the environment's allowed origins. */
export async function readPassage(
  { environments, origins }: Pick<Broker, "environments" | "origins">,
  query: Pick<QueryReader, "text">,
  { environment }: ConnectSession,
  sessionToken: string,
): Promise<Passage> {
  const embedder = query.text("embedder") ?? "";
  if (embedder !== "" && !origins.isAllowed(embedder, environment)) {
    throw new Fault("origin_not_allowed", "embedder must be one of the allowed_origins of the environment");
  }
  const returnTo = query.text("return_to") ?? "";
  const { allowedOrigins } = await environments.get(environment);
  if (returnTo !== "" && returnTarget(returnTo, origins.forReturn(returnTo, allowedOrigins)) === undefined) {
    throw new Fault("invalid_query_params", "return_to must be a URL of one of the allowed_origins of the environment");
  }
  return { sessionToken, embedder, returnTo };
}
