import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import type { Script } from "../../core/scripts/script.ts";
import { functionJson, typeOf } from "../../core/scripts/script-config.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { RouteAnswer } from "../server/routes.ts";
import { type JsonRequest, type JsonRoute, jsonRoute } from "./json-route.ts";
import { inQuery } from "./query-fields.ts";

const defaultLimit = 100;
const functionQuery = { type: inQuery.choice("action", "sync", "on-event") };
const listQuery = {
  ...functionQuery,
  search: inQuery.text,
  page: inQuery.integer({ min: 0, max: 1_000_000 }),
  limit: inQuery.integer({ min: 1, max: 1_000 }),
};

const path = "/integrations/:key/functions";
const read = { method: "GET", scope: Scope.INTEGRATIONS_READ, query: functionQuery } as const;

/** The scripts of an integration; the SDK calls them functions. */
export const functionRoutes: readonly JsonRoute[] = [
  jsonRoute({ ...read, path, query: listQuery, handle: listFunctions }),
  jsonRoute({ ...read, path: `${path}/:name`, handle: getFunction }),
  jsonRoute({ ...read, path: `${path}/:name/code`, handle: getCode }),
  jsonRoute({
    method: "DELETE",
    path: `${path}/:name`,
    scope: Scope.INTEGRATIONS_WRITE,
    query: functionQuery,
    handle: refuseDeletion,
  }),
];

async function listFunctions(request: JsonRequest<typeof listQuery>, broker: Broker): Promise<RouteAnswer> {
  const { type, search, page = 0, limit = defaultLimit } = request.query;
  const wanted = search.toLowerCase();
  const found = (await scriptsOf(request, broker)).filter(
    (script) =>
      (type === undefined || typeOf(script) === type) &&
      `${script.name}\n${script.description}`.toLowerCase().includes(wanted),
  );
  const data = found.slice(page * limit, (page + 1) * limit).map(functionJson);
  return { status: 200, body: { data, pagination: { total: found.length, page, limit } } };
}

type FunctionRequest = JsonRequest<typeof functionQuery>;

async function getFunction(request: FunctionRequest, broker: Broker): Promise<RouteAnswer> {
  return { status: 200, body: { data: functionJson(await findScript(request, broker)) } };
}

async function getCode(request: FunctionRequest, broker: Broker): Promise<RouteAnswer> {
  const script = await findScript(request, broker);
  const code = broker.scripts.sourceOf(script);
  if (code === undefined) {
    throw new Fault("not_found", `the function "${script.name}" has just changed; try again`);
  }
  return { status: 200, body: { type: typeOf(script), code } };
}

async function refuseDeletion(request: FunctionRequest, broker: Broker): Promise<RouteAnswer> {
  const script = await findScript(request, broker);
  const file = `the file of the ${typeOf(script)} "${script.name}" below ${script.integration}/`;
  const message = `functions are files of the folder that LATCHKEY_SCRIPTS names: delete ${file} there`;
  throw new Fault("function_managed_by_deploy", message);
}

async function scriptsOf(
  { environment, params }: Pick<JsonRequest, "environment" | "params">,
  { scripts, integrations }: Broker,
): Promise<Script[]> {
  const { value } = await integrations.get({ environment, key: params["key"] ?? "" });
  return scripts
    .all()
    .filter(({ integration }) => integration === value.key)
    .toSorted((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1));
}

const orderOf = ({ kind, name }: Script): string => `${kind}\0${name}`;

/** Returns the only script of that name and, if given, of that type. */
async function findScript(request: FunctionRequest, broker: Broker): Promise<Script> {
  const { type } = request.query;
  const name = request.params["name"] ?? "";
  const found = (await scriptsOf(request, broker)).filter(
    (script) => script.name === name && (type === undefined || typeOf(script) === type),
  );
  const [script, ...others] = found;
  if (script === undefined) throw new Fault("not_found", `the integration has no function "${name}"`);
  if (others.length === 0) return script;
  const matches = found.map((one) => ({ type: typeOf(one), name }));
  throw new Fault("ambiguous_function", `the integration has several functions "${name}": send type as well`, {
    payload: { matches },
  });
}
