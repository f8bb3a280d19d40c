import type { Broker } from "../../broker/broker.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { Revocation_State } from "../../gen/latchkey/v1/connection_pb.ts";
import type { RouteAnswer } from "../server/routes.ts";
import { endUserRoutes } from "./end-user-routes.ts";
import { type JsonRequest, type JsonRoute, jsonRoute } from "./json-route.ts";
import { inQuery } from "./query-fields.ts";
import { revocationJson } from "./revocation-json.ts";

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
  ...endUserRoutes,
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
