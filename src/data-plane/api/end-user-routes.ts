import type { JsonObject } from "@bufbuild/protobuf";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { Broker } from "../../broker/broker.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { type EndUserDeletion, EndUserDeletion_State } from "../../gen/latchkey/v1/end_user_pb.ts";
import type { RouteAnswer } from "../server/routes.ts";
import { type JsonRequest, type JsonRoute, jsonRoute } from "./json-route.ts";
import { inQuery } from "./query-fields.ts";
import { revocationJson } from "./revocation-json.ts";

const deleteQuery = { keep_grant: inQuery.choice("true", "false") };

export const endUserRoutes: readonly JsonRoute[] = [
  jsonRoute({
    scope: Scope.CONNECTIONS_WRITE,
    method: "DELETE",
    path: "/end-users/:id",
    query: deleteQuery,
    handle: deleteEndUser,
  }),
  jsonRoute({
    scope: Scope.CONNECTIONS_READ,
    method: "GET",
    path: "/end-users/:id/deletion",
    handle: showDeletion,
  }),
];

async function deleteEndUser(request: JsonRequest<typeof deleteQuery>, { endUsers }: Broker): Promise<RouteAnswer> {
  const { environment, params, query, actor } = request;
  const keepGrant = query.keep_grant === undefined ? undefined : query.keep_grant === "true";
  const deletion = await endUsers.delete({ environment, endUserId: params["id"] ?? "", keepGrant }, actor);
  return { status: 200, body: deletionJson(deletion) };
}

async function showDeletion({ environment, params }: JsonRequest, { endUsers }: Broker): Promise<RouteAnswer> {
  return { status: 200, body: deletionJson(await endUsers.deletionOf({ environment, endUserId: params["id"] ?? "" })) };
}

function deletionJson(deletion: EndUserDeletion): JsonObject {
  const { endUserId, state, connections, connectSessions, deviceAuthorizations, revocations } = deletion;
  const iso = (at: EndUserDeletion["createdAt"]) => (at === undefined ? null : timestampDate(at).toISOString());
  return {
    end_user_id: endUserId,
    state: state === EndUserDeletion_State.DONE ? "done" : "running",
    connections,
    connect_sessions: connectSessions,
    device_authorizations: deviceAuthorizations,
    revocations: revocations.map(revocationJson),
    created_at: iso(deletion.createdAt),
    ended_at: iso(deletion.endedAt),
  };
}
