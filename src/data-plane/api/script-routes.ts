import { version as sdkVersion } from "../../base/version.ts";
import type { Broker } from "../../broker/broker.ts";
import { openAIFunctions, standardConfig } from "../../core/scripts/script-config.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { RouteAnswer } from "../server/routes.ts";
import { allIntegrations } from "./all-integrations.ts";
import { type JsonRequest, type JsonRoute, jsonRoute } from "./json-route.ts";
import { inQuery } from "./query-fields.ts";

const configQuery = { format: inQuery.choice("nango", "openai") };

/** Routes that the SDK uses for scripts. */
export const scriptRoutes: readonly JsonRoute[] = [
  jsonRoute({
    method: "GET",
    path: "/environment-variables",
    // Environment variables may be secrets.
    scope: Scope.CREDENTIALS_READ,
    handle: listVariables,
  }),
  jsonRoute({
    method: "GET",
    path: "/scripts/config",
    scope: Scope.CONNECTIONS_READ,
    query: configQuery,
    handle: getConfig,
  }),
];

function listVariables({ environment }: JsonRequest, { variables }: Broker): RouteAnswer {
  return { status: 200, body: variables.of(environment) };
}

async function getConfig(
  { environment, query: { format } }: JsonRequest<typeof configQuery>,
  { scripts, integrations }: Broker,
): Promise<RouteAnswer> {
  const all = scripts.all();
  if (format === "openai") return { status: 200, body: { data: openAIFunctions(all) } };
  const found = await allIntegrations(integrations, environment);
  const providers = new Map(found.map(({ key, provider }) => [key, provider]));
  return { status: 200, body: standardConfig(all, { sdkVersion, providerOf: (key) => providers.get(key) }) };
}
