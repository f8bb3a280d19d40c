import type { JsonObject } from "@bufbuild/protobuf";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { stateOfRevocation, tokenResults } from "../../core/revocation-words.ts";
import type { Revocation } from "../../gen/latchkey/v1/connection_pb.ts";

/** Returns a revocation as the JSON routes show it. */
export function revocationJson(revocation: Revocation): JsonObject {
  const { id, ref, provider, endUserId, tokens, furtherToken, attempts, lastError } = revocation;
  const { createdAt, nextAttemptAt, endedAt } = revocation;
  const iso = (at: typeof createdAt) => (at === undefined ? null : timestampDate(at).toISOString());
  const causes = tokens.filter(({ cause }) => cause !== "").map(({ token, cause }) => [token, cause]);
  return {
    id,
    connection_id: ref?.id ?? "",
    provider_config_key: ref?.integration ?? "",
    provider,
    end_user_id: endUserId === "" ? null : endUserId,
    state: stateOfRevocation(revocation),
    further_token: furtherToken === "" ? null : furtherToken,
    tokens: tokenResults(revocation),
    causes: Object.fromEntries(causes),
    attempts,
    last_error: lastError === "" ? null : lastError,
    created_at: iso(createdAt),
    next_attempt_at: iso(nextAttemptAt),
    ended_at: iso(endedAt),
  };
}
