import { create, type JsonObject } from "@bufbuild/protobuf";
import type { Broker } from "../../broker/broker.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { type ConnectionChoice, type ConnectionRef, ConnectionRefSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import type { RouteAnswer } from "../server/routes.ts";
import { type BodyField, inBody } from "./body-fields.ts";
import { fullConnection } from "./connection-json.ts";
import { type JsonRequest, type JsonRoute, jsonRoute } from "./json-route.ts";
import { inQuery } from "./query-fields.ts";

const query = { provider_config_key: inQuery.requiredText };
const maxChoices = 5;

const options: BodyField<Record<string, string>> = {
  ...inBody.textMap,
  required: true,
  description: "ids or labels of options, by the names of choices",
  read(fields, name) {
    const value = fields.textMap(name) ?? {};
    const count = Object.keys(value).length;
    if (count === 0 || count > maxChoices) fields.refuse(name, `must have 1 to ${maxChoices} choices`);
    return value;
  },
};
const body = { options };
const path = "/connections/:id/choices";

/** What can be chosen for a connection, such as one of several sites. */
export const choiceRoutes: readonly JsonRoute[] = [
  jsonRoute({ scope: Scope.CONNECTIONS_READ, method: "GET", path, query, handle: listChoices }),
  jsonRoute({ scope: Scope.CONNECTIONS_WRITE, method: "POST", path, query, body, handle: chooseValues }),
];

async function listChoices(request: JsonRequest<typeof query>, { authorizations }: Broker): Promise<RouteAnswer> {
  const choices = await authorizations.choices.list(refOf(request));
  return { status: 200, body: { choices: choices.map(choiceJson) } };
}

async function chooseValues(request: JsonRequest<typeof query, typeof body>, broker: Broker): Promise<RouteAnswer> {
  const { actor, body: given } = request;
  const connection = await broker.authorizations.choices.choose(refOf(request), given.options, actor);
  return { status: 200, body: await fullConnection(broker, connection, undefined) };
}

const refOf = ({
  environment,
  params,
  query: named,
}: Pick<JsonRequest<typeof query>, "environment" | "params" | "query">): ConnectionRef =>
  create(ConnectionRefSchema, { environment, integration: named.provider_config_key, id: params["id"] ?? "" });

const choiceJson = ({ name, title, needed, problem, options: offered }: ConnectionChoice): JsonObject => ({
  name,
  title,
  needed,
  ...(problem === "" ? {} : { problem }),
  options: offered.map(({ id, label, connectionConfig, chosen }) => ({
    id,
    label,
    connection_config: { ...connectionConfig },
    chosen,
  })),
});
