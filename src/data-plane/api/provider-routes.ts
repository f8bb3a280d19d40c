import type { Broker } from "../../broker/broker.ts";
import { providerJson } from "../../core/dialect/sdk-json.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { RouteAnswer } from "../server/routes.ts";
import { type JsonRequest, type JsonRoute, jsonRoute } from "./json-route.ts";
import { inQuery } from "./query-fields.ts";

const listQuery = { search: inQuery.text };
const row = { method: "GET", scope: Scope.INTEGRATIONS_READ, takesControlKey: true } as const;

export const providerRoutes: readonly JsonRoute[] = [
  jsonRoute({ ...row, path: "/providers", query: listQuery, handle: listProviders }),
  jsonRoute({ ...row, path: "/providers/:name", handle: getProvider }),
  jsonRoute({ ...row, path: "/providers/:name/templates", handle: listTemplates }),
];

function listProviders({ query: { search } }: JsonRequest<typeof listQuery>, { providers }: Broker): RouteAnswer {
  const { items } = providers.list({ search }, { size: Number.MAX_SAFE_INTEGER, token: "" });
  return { status: 200, body: { data: items.map(providerJson) } };
}

async function getProvider({ params }: JsonRequest, { providers }: Broker): Promise<RouteAnswer> {
  return { status: 200, body: { data: providerJson(await providers.findNow(params["name"] ?? "")) } };
}

/** Latchkey has no templates. */
async function listTemplates({ params }: JsonRequest, { providers }: Broker): Promise<RouteAnswer> {
  await providers.findNow(params["name"] ?? "");
  return { status: 200, body: { data: [] } };
}
