import { create } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { Broker } from "../../broker/broker.ts";
import type { CreatedSession, NewSession } from "../../broker/connect/sessions.ts";
import { scopesIn } from "../../core/granted-scopes.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { IntegrationDefaultsSchema, IntegrationOverridesSchema } from "../../gen/latchkey/v1/connect_session_pb.ts";
import { ConnectionRefSchema, EndUserSchema, OrganizationSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import type { RouteAnswer } from "../server/routes.ts";
import { inBody } from "./body-fields.ts";
import { endUserField, endUserOf, organizationField, organizationOf } from "./end-user-field.ts";
import type { ValuesOf } from "./field-shape.ts";
import { type JsonRequest, type JsonRoute, jsonRoute, type NoFields } from "./json-route.ts";

const sessionBody = {
  organization: organizationField,
  end_user: endUserField,
  tags: inBody.textMap,
  allowed_integrations: inBody.texts,
  integrations_config_defaults: inBody.objectMap({
    user_scopes: inBody.text,
    authorization_params: inBody.textMap,
    connection_config: inBody.json,
  }),
  overrides: inBody.objectMap({ docs_connect: inBody.text }),
  webhook_url_override: inBody.text,
};
const reconnectBody = {
  integration_id: inBody.requiredText,
  connection_id: inBody.requiredText,
  ...sessionBody,
};

const row = { method: "POST", scope: Scope.CONNECTIONS_WRITE } as const;

/** Routes by which an application creates connect sessions. */
export const connectRoutes: readonly JsonRoute[] = [
  jsonRoute({ ...row, path: "/connect/sessions", body: sessionBody, handle: createSession }),
  jsonRoute({ ...row, path: "/connect/sessions/reconnect", body: reconnectBody, handle: createReconnectSession }),
];

async function createSession(
  { environment, caller, body }: JsonRequest<NoFields, typeof sessionBody>,
  { sessions }: Broker,
): Promise<RouteAnswer> {
  return answerOf(await sessions.create(sessionOf(body, environment), caller));
}

/** Creates a session for an existing connection. */
async function createReconnectSession(
  { environment, caller, body }: JsonRequest<NoFields, typeof reconnectBody>,
  { sessions }: Broker,
): Promise<RouteAnswer> {
  const { integration_id: integration, connection_id: id } = body;
  const reconnect = create(ConnectionRefSchema, { environment, integration, id });
  return answerOf(await sessions.create({ ...sessionOf(body, environment), reconnect }, caller));
}

function answerOf({ session: { expiresAt }, token, connectLink }: CreatedSession): RouteAnswer {
  if (expiresAt === undefined) throw new Error("a session has an end");
  const expires = new Date(timestampMs(expiresAt)).toISOString();
  return { status: 201, body: { data: { token, connect_link: connectLink, expires_at: expires } } };
}

type SessionJson = ValuesOf<typeof sessionBody>;

function sessionOf(body: SessionJson, environment: string): NewSession {
  const { integrations_config_defaults: defaults, overrides } = body;
  const user = endUserOf(body.end_user);
  const endUser = user && create(EndUserSchema, user);
  if (endUser !== undefined && body.organization !== undefined) {
    endUser.organization ??= create(OrganizationSchema, organizationOf(body.organization));
  }
  return {
    environment,
    ...(endUser !== undefined && { endUser }),
    tags: body.tags ?? {},
    allowedIntegrations: body.allowed_integrations,
    integrationDefaults: mapValues(defaults, (one) =>
      create(IntegrationDefaultsSchema, {
        userScopes: scopesIn(one.user_scopes ?? ""),
        authorizationParams: one.authorization_params ?? {},
        connectionConfig: one.connection_config ?? {},
      }),
    ),
    overrides: mapValues(overrides, ({ docs_connect: docsConnect = "" }) =>
      create(IntegrationOverridesSchema, { docsConnect }),
    ),
    webhookUrlOverride: body.webhook_url_override ?? "",
  };
}

const mapValues = <T, R>(values: Readonly<Record<string, T>>, convert: (value: T) => R): Record<string, R> =>
  Object.fromEntries(Object.entries(values).map(([key, value]) => [key, convert(value)]));
