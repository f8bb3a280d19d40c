import type { Broker } from "../../broker/broker.ts";
import { requireScope } from "../../broker/setup/caller.ts";
import { hasCallback } from "../../core/callback-address.ts";
import { authModeOf } from "../../core/dialect/credentials.ts";
import { integrationJson } from "../../core/dialect/sdk-json.ts";
import { quickstartApp } from "../../core/setup/quickstart-app.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { Integration } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { RouteAnswer } from "../server/routes.ts";
import { allIntegrations } from "./all-integrations.ts";
import { invalidBody } from "./body-fields.ts";
import {
  changedPaths,
  checkKey,
  checkNewIntegration,
  integrationOf,
  newIntegrationBody,
  updateBody,
} from "./integration-body.ts";
import { type JsonRequest, type JsonRoute, jsonRoute, type NoFields } from "./json-route.ts";
import { inQuery } from "./query-fields.ts";

const getQuery = { include: inQuery.choices("webhook", "credentials") };

const read = { scope: Scope.INTEGRATIONS_READ } as const;
const write = { scope: Scope.INTEGRATIONS_WRITE } as const;
const create = { ...write, method: "POST", body: newIntegrationBody, checkBody: checkNewIntegration } as const;
const path = "/integrations/:key";

export const integrationRoutes: readonly JsonRoute[] = [
  jsonRoute({ ...read, method: "GET", path: "/integrations", handle: listIntegrations }),
  jsonRoute({ ...create, path: "/integrations", handle: createIntegration }),
  jsonRoute({ ...create, path: "/integrations/quickstart", handle: createQuickstart }),
  jsonRoute({ ...read, method: "GET", path, query: getQuery, handle: getIntegration }),
  jsonRoute({ ...write, method: "PATCH", path, body: updateBody, checkBody: checkKey, handle: updateIntegration }),
  jsonRoute({ ...write, method: "DELETE", path, handle: deleteIntegration }),
  jsonRoute({ ...write, method: "POST", path: `${path}/discover`, handle: discoverIntegration }),
];

async function listIntegrations({ environment }: JsonRequest, broker: Broker): Promise<RouteAnswer> {
  const all = await allIntegrations(broker.integrations, environment);
  return { status: 200, body: { data: await Promise.all(all.map((one) => jsonOf(one, broker))) } };
}

type CreateRequest = JsonRequest<NoFields, typeof newIntegrationBody>;

async function createIntegration({ environment, actor, body }: CreateRequest, broker: Broker): Promise<RouteAnswer> {
  const integration = integrationOf(body, environment);
  if (integration.mcpUrl !== "") return answerWith(await broker.mcp.create(integration, actor), broker);
  requireType(body.credentials?.type, await broker.providers.findNow(integration.provider));
  return answerWith(await broker.integrations.create(integration, actor), broker);
}

/** Creates an integration without an app of the customer's own. */
async function createQuickstart({ environment, actor, body }: CreateRequest, broker: Broker): Promise<RouteAnswer> {
  const paths = changedPaths(body);
  if (paths.some((one) => one.startsWith("oauth") || one.startsWith("secrets"))) {
    const message = "must be absent in a quickstart: POST /integrations takes an app of your own";
    throw invalidBody(message, ["credentials"]);
  }
  if (body.mcp_url !== undefined) throw invalidBody("must be absent in a quickstart", ["mcp_url"]);
  const integration = integrationOf(body, environment);
  const provider = await broker.providers.findNow(integration.provider);
  const ready = { ...integration, ...quickstartApp(provider) };
  return answerWith(await broker.integrations.create(ready, actor), broker);
}

async function getIntegration(request: JsonRequest<typeof getQuery>, broker: Broker): Promise<RouteAnswer> {
  const { include } = request.query;
  const withCredentials = include.includes("credentials");
  if (withCredentials) requireScope(request.caller, Scope.CREDENTIALS_READ);
  const ref = { environment: request.environment, key: request.params["key"] ?? "" };
  const { value: integration } = await broker.integrations.get(ref);
  const view = await viewOf(integration, broker);
  const webhookUrl = include.includes("webhook") ? await broker.webhookUrls.of(integration) : undefined;
  const secrets = withCredentials ? await broker.integrations.secretsOf(ref) : undefined;
  const data = integrationJson({ ...view, withCredentials, secrets, ...(webhookUrl !== undefined && { webhookUrl }) });
  return { status: 200, body: { data } };
}

async function updateIntegration(
  { environment, caller, params, body }: JsonRequest<NoFields, typeof updateBody>,
  broker: Broker,
): Promise<RouteAnswer> {
  const key = params["key"] ?? "";
  const { value: before } = await broker.integrations.get({ environment, key });
  requireType(body.credentials?.type, await broker.providers.findNow(before.provider));
  if (body.unique_key !== undefined && body.unique_key !== "" && body.unique_key !== key) {
    throw invalidBody("cannot change: connections are named by the key of their integration", ["unique_key"]);
  }
  const paths = changedPaths(body);
  if (paths.length === 0) return answerWith(before, broker);
  const integration = { ...integrationOf(body, environment), key };
  return answerWith(await broker.integrations.update({ integration, paths, expectedRevision: 0n }, caller), broker);
}

async function deleteIntegration({ environment, actor, params }: JsonRequest, broker: Broker): Promise<RouteAnswer> {
  await broker.integrations.delete({ environment, key: params["key"] ?? "", expectedRevision: 0n }, actor);
  return { status: 200, body: { success: true } };
}

/** Reads the metadata of an integration's MCP server again. */
async function discoverIntegration({ environment, actor, params }: JsonRequest, broker: Broker): Promise<RouteAnswer> {
  const ref = { environment, key: params["key"] ?? "" };
  const { integration, issuerChanged } = await broker.mcp.discover(ref, actor);
  return { status: 200, body: { data: await jsonOf(integration, broker), issuer_changed: issuerChanged } };
}

const answerWith = async (integration: Integration, broker: Broker): Promise<RouteAnswer> => ({
  status: 200,
  body: { data: await jsonOf(integration, broker) },
});

const jsonOf = async (integration: Integration, broker: Broker) => integrationJson(await viewOf(integration, broker));

async function viewOf(integration: Integration, { providers, authorizations }: Broker) {
  const provider = providers.lookUp(integration.provider);
  const isRedirected = provider !== undefined && hasCallback(provider);
  const callbackUrl = isRedirected ? await authorizations.callbackUrl(integration) : undefined;
  return { integration, provider, callbackUrl };
}

/** Rejects credentials of another type than the provider's. */
function requireType(type: string | undefined, provider: Provider): void {
  const wanted = authModeOf(provider);
  if (type === undefined || type === wanted) return;
  throw invalidBody(`must be ${wanted}, the type of the provider`, ["credentials", "type"]);
}
