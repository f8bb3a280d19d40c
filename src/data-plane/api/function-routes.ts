import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import type { Script } from "../../core/scripts/script.ts";
import { functionJson, typeOf } from "../../core/scripts/script-config.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { QueryReader } from "../server/query.ts";
import { callerIn, type Route, type RouteRequest } from "../server/routes.ts";

const types = ["action", "sync", "on-event"] as const;
const maxLimit = 1_000;
const defaultLimit = 100;
const maxPage = 1_000_000;

/** The scripts of an integration; the SDK calls them functions. */
export function functionRoutes({ scripts, integrations }: Broker): Route[] {
  async function scriptsOf(request: RouteRequest): Promise<Script[]> {
    const { environment } = callerIn(request);
    const { value } = await integrations.get({ environment, key: request.params["key"] ?? "" });
    return scripts
      .all()
      .filter(({ integration }) => integration === value.key)
      .toSorted((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1));
  }

  /** Returns the only script of that name and, if given, of that type. */
  async function scriptIn(request: RouteRequest): Promise<Script> {
    const type = typeIn(request.query);
    request.query.end();
    const name = request.params["name"] ?? "";
    const found = (await scriptsOf(request)).filter(
      (script) => script.name === name && (type === undefined || typeOf(script) === type),
    );
    const [script, ...others] = found;
    if (script === undefined) throw new Fault("not_found", `the integration has no function "${name}"`);
    if (others.length === 0) return script;
    const matches = found.map((one) => ({ type: typeOf(one), name }));
    throw new Fault("ambiguous_function", `several functions are called "${name}": say type`, { payload: { matches } });
  }

  const path = "/integrations/:key/functions";
  const scope = Scope.INTEGRATIONS_READ;
  return [
    {
      ...{ method: "GET", path, scope },
      async answer(request) {
        const { query } = request;
        const type = typeIn(query);
        const search = query.text("search")?.toLowerCase() ?? "";
        const page = query.integer("page", { min: 0, max: maxPage }) ?? 0;
        const limit = query.integer("limit", { min: 1, max: maxLimit }) ?? defaultLimit;
        query.end();
        const found = (await scriptsOf(request)).filter(
          (script) =>
            (type === undefined || typeOf(script) === type) &&
            `${script.name}\n${script.description}`.toLowerCase().includes(search),
        );
        const data = found.slice(page * limit, (page + 1) * limit).map(functionJson);
        return { status: 200, body: { data, pagination: { total: found.length, page, limit } } };
      },
    },
    {
      ...{ method: "GET", path: `${path}/:name`, scope },
      answer: async (request) => ({ status: 200, body: { data: functionJson(await scriptIn(request)) } }),
    },
    {
      ...{ method: "GET", path: `${path}/:name/code`, scope },
      async answer(request) {
        const script = await scriptIn(request);
        const code = scripts.sourceOf(script);
        if (code === undefined)
          throw new Fault("not_found", `the function "${script.name}" has just changed: ask again`);
        return { status: 200, body: { type: typeOf(script), code } };
      },
    },
    {
      ...{ method: "DELETE", path: `${path}/:name`, scope: Scope.INTEGRATIONS_WRITE },
      async answer(request) {
        const script = await scriptIn(request);
        const file = `the file of the ${typeOf(script)} "${script.name}" below ${script.integration}/`;
        const message = `functions are files of the folder that LATCHKEY_SCRIPTS names: delete ${file} there`;
        throw new Fault("function_managed_by_deploy", message);
      },
    },
  ];
}

const orderOf = ({ kind, name }: Script): string => `${kind}\0${name}`;

function typeIn(query: QueryReader): (typeof types)[number] | undefined {
  const said = query.text("type");
  const type = types.find((one) => one === said);
  if (said !== undefined && type === undefined) query.refuse("type", `must be one of ${types.join(", ")}`);
  return type;
}
