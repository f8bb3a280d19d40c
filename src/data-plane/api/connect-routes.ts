import { create, type JsonObject } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import type { CreatedSession, NewSession } from "../../broker/connect/sessions.ts";
import { readEndUserJson } from "../../core/dialect/import-line.ts";
import { isObject, type JsonFields, type ReadingNotes, readFields } from "../../core/dialect/json-fields.ts";
import { endUserJson } from "../../core/dialect/sdk-json.ts";
import { scopesIn } from "../../core/granted-scopes.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import {
  type ConnectSession,
  type IntegrationDefaults,
  IntegrationDefaultsSchema,
  type IntegrationOverrides,
  IntegrationOverridesSchema,
} from "../../gen/latchkey/v1/connect_session_pb.ts";
import { ConnectionRefSchema, EndUserSchema, OrganizationSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import { sessionOf } from "../connect/session-token.ts";
import { primaryColors } from "../pages/layout.ts";
import { callerIn, type Route, type RouteAnswer } from "../server/routes.ts";

export function connectRoutes(broker: Broker): Route[] {
  const { sessions, countIgnored } = broker;

  const create = (path: string, isAgain: boolean): Route => ({
    method: "POST",
    path,
    scope: Scope.CONNECTIONS_WRITE,
    takesBody: true,
    async answer(request) {
      const { environment, caller } = callerIn(request);
      const { session, ignored } = readSession(request.body, { environment, isAgain });
      countIgnored(path, ignored);
      return created(await sessions.create(session, caller));
    },
  });

  return [
    create("/connect/sessions", false),
    create("/connect/sessions/reconnect", true),
    {
      method: "GET",
      path: "/connect/session",
      scope: undefined,
      isPublic: true,
      browser: "script",
      async answer({ headers }) {
        const { value } = await sessionOf(broker, { headers });
        return { status: 200, body: { data: sessionJson(value) } };
      },
    },
    {
      method: "DELETE",
      path: "/connect/session",
      scope: undefined,
      isPublic: true,
      browser: "script",
      async answer({ headers }) {
        const { value } = await sessionOf(broker, { headers });
        await sessions.delete({ ...value, expectedRevision: 0n }, "browser");
        return { status: 204, body: undefined };
      },
    },
  ];
}

function created({ session: { expiresAt }, token, connectLink }: CreatedSession): RouteAnswer {
  if (expiresAt === undefined) throw new Error("a session has an end");
  const expires = new Date(timestampMs(expiresAt)).toISOString();
  return { status: 201, body: { data: { token, connect_link: connectLink, expires_at: expires } } };
}

interface SessionReading {
  readonly environment: string;
  /** A session for an existing connection. */
  readonly isAgain: boolean;
}

function readSession(body: JsonObject, { environment, isAgain }: SessionReading) {
  const findings: ReadingNotes = { mistakes: [], ignored: [] };
  const fields = readFields(body, { path: [], findings });
  const reconnect = isAgain
    ? create(ConnectionRefSchema, {
        environment,
        integration: fields.requiredText("integration_id"),
        id: fields.requiredText("connection_id"),
      })
    : undefined;
  const organization = readOrganization(fields.object("organization"));
  const read = readEndUserJson(fields.object("end_user"));
  const endUser = read === undefined ? undefined : create(EndUserSchema, read);
  if (endUser !== undefined && organization !== undefined) endUser.organization ??= organization;
  const session: NewSession = {
    environment,
    ...(endUser === undefined ? {} : { endUser }),
    tags: fields.textMap("tags") ?? {},
    allowedIntegrations: readTexts(fields, body, "allowed_integrations"),
    integrationDefaults: readDefaults(fields, body),
    overrides: readOverrides(fields, body),
    webhookUrlOverride: fields.text("webhook_url_override") ?? "",
    ...(reconnect === undefined ? {} : { reconnect }),
  };
  fields.ignoreRest();
  if (findings.mistakes.length > 0) {
    throw new Fault("invalid_body", "the connect session is not valid", { mistakes: findings.mistakes });
  }
  return { session, ignored: findings.ignored.length };
}

function readOrganization(fields: JsonFields | undefined) {
  if (fields === undefined) return undefined;
  const id = fields.requiredText("id");
  const displayName = fields.text("display_name") ?? "";
  fields.ignoreRest();
  return create(OrganizationSchema, { id, displayName });
}

function readTexts(fields: JsonFields, body: JsonObject, name: string): string[] {
  if (!fields.has(name)) return [];
  const value = body[name];
  if (Array.isArray(value) && value.every((one) => typeof one === "string")) return value;
  fields.refuse(name, "must be an array of text");
  return [];
}

function readDefaults(fields: JsonFields, body: JsonObject): Record<string, IntegrationDefaults> {
  const name = "integrations_config_defaults";
  const all = fields.object(name);
  const keys = isObject(body[name]) ? Object.keys(body[name]) : [];
  return Object.fromEntries(
    keys.flatMap((key) => {
      const one = all?.object(key);
      if (one === undefined) return [];
      const made = create(IntegrationDefaultsSchema, {
        userScopes: scopesIn(one.text("user_scopes") ?? ""),
        authorizationParams: one.textMap("authorization_params") ?? {},
        connectionConfig: one.json("connection_config") ?? {},
      });
      one.ignoreRest();
      return [[key, made]];
    }),
  );
}

function readOverrides(fields: JsonFields, body: JsonObject): Record<string, IntegrationOverrides> {
  const all = fields.object("overrides");
  const keys = isObject(body["overrides"]) ? Object.keys(body["overrides"]) : [];
  return Object.fromEntries(
    keys.flatMap((key) => {
      const one = all?.object(key);
      if (one === undefined) return [];
      const overrides = create(IntegrationOverridesSchema, { docsConnect: one.text("docs_connect") ?? "" });
      one.ignoreRest();
      return [[key, overrides]];
    }),
  );
}

/** Returns a session in the form that the SDK's own page reads. */
function sessionJson(session: ConnectSession): JsonObject {
  const { endUser, tags, allowedIntegrations, integrationDefaults, overrides, reconnect, webhookUrlOverride } = session;
  return {
    endUser: endUserJson(endUser),
    tags: { ...tags },
    ...(allowedIntegrations.length === 0 ? {} : { allowed_integrations: [...allowedIntegrations] }),
    integrations_config_defaults: Object.fromEntries(
      Object.entries(integrationDefaults).map(([key, defaults]) => [key, defaultsJson(defaults)]),
    ),
    ...(Object.keys(overrides).length === 0 ? {} : { overrides: overridesJson(overrides) }),
    isReconnecting: reconnect !== undefined,
    connectUISettings: {
      theme: { light: { primary: primaryColors.light }, dark: { primary: primaryColors.dark } },
      defaultTheme: "system",
      showWatermark: false,
    },
    ...(webhookUrlOverride === "" ? {} : { webhook_url_override: webhookUrlOverride }),
  };
}

const overridesJson = (overrides: Readonly<Record<string, IntegrationOverrides>>): JsonObject =>
  Object.fromEntries(
    Object.entries(overrides).map(([key, { docsConnect }]) => [
      key,
      docsConnect === "" ? {} : { docs_connect: docsConnect },
    ]),
  );

const defaultsJson = ({ userScopes, authorizationParams, connectionConfig = {} }: IntegrationDefaults): JsonObject => ({
  ...(userScopes.length === 0 ? {} : { user_scopes: userScopes.join(",") }),
  authorization_params: { ...authorizationParams },
  connection_config: connectionConfig,
});
