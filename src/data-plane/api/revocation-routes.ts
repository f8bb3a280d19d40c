import type { JsonObject } from "@bufbuild/protobuf";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { Broker } from "../../broker/broker.ts";
import { stateOfRevocation, tokenResults } from "../../core/revocation-words.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { type Revocation, Revocation_State } from "../../gen/latchkey/v1/connection_pb.ts";
import type { RouteAnswer } from "../server/routes.ts";
import { type JsonRequest, type JsonRoute, jsonRoute } from "./json-route.ts";
import { inQuery } from "./query-fields.ts";

const maxPage = 1_000;

const states = { pending: Revocation_State.PENDING, done: Revocation_State.DONE, failed: Revocation_State.FAILED };

const listQuery = {
  limit: inQuery.integer({ min: 1, max: maxPage }),
  cursor: inQuery.text,
  provider_config_key: inQuery.text,
  connection_id: inQuery.text,
  end_user_id: inQuery.text,
  state: inQuery.choices("pending", "done", "failed"),
};

export const revocationRoutes: readonly JsonRoute[] = [
  jsonRoute({
    scope: Scope.CONNECTIONS_READ,
    method: "GET",
    path: "/revocations",
    query: listQuery,
    handle: listRevocations,
  }),
];

async function listRevocations(
  { environment, query }: JsonRequest<typeof listQuery>,
  broker: Broker,
): Promise<RouteAnswer> {
  const { limit: size = 100, cursor: token, provider_config_key: integration, connection_id: connectionId } = query;
  const filter = {
    environment,
    integration,
    connectionId,
    endUserId: query.end_user_id,
    states: query.state.map((one) => states[one as keyof typeof states]),
  };
  const { items, next } = await broker.listRevocations(filter, { size, token });
  const body = { revocations: items.map(revocationJson), ...(next === "" ? {} : { next_cursor: next }) };
  return { status: 200, body };
}

/** Returns a revocation as the JSON routes show it. */
export function revocationJson(revocation: Revocation): JsonObject {
  const { id, ref, provider, endUserId, tokens, attempts, lastError, createdAt, nextAttemptAt, endedAt } = revocation;
  const iso = (at: typeof createdAt) => (at === undefined ? null : timestampDate(at).toISOString());
  const causes = tokens.filter(({ cause }) => cause !== "").map(({ token, cause }) => [token, cause]);
  return {
    id,
    connection_id: ref?.id ?? "",
    provider_config_key: ref?.integration ?? "",
    provider,
    end_user_id: endUserId === "" ? null : endUserId,
    state: stateOfRevocation(revocation),
    tokens: tokenResults(revocation),
    causes: Object.fromEntries(causes),
    attempts,
    last_error: lastError === "" ? null : lastError,
    created_at: iso(createdAt),
    next_attempt_at: iso(nextAttemptAt),
    ended_at: iso(endedAt),
  };
}
