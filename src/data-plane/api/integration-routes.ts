import { create, type JsonObject } from "@bufbuild/protobuf";
import type { SchemeName } from "../../auth/scheme.ts";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { requireScope } from "../../broker/setup/caller.ts";
import { hasCallback } from "../../core/callback-address.ts";
import { authModeOf } from "../../core/dialect/credentials.ts";
import { type JsonFields, type ReadingNotes, readFields } from "../../core/dialect/json-fields.ts";
import { integrationJson } from "../../core/dialect/sdk-json.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import {
  type Integration,
  Integration_Callback,
  IntegrationSchema,
  IntegrationSecretsSchema,
  OAuthAppSchema,
} from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import { callerIn, type Route } from "../server/routes.ts";

// Same limits as in the proto.
const maxDisplayName = 200;
const maxClientId = 4_096;
const maxSecret = 16_384;
const maxCertificate = 65_536;
const maxScopes = 200;

export function integrationRoutes(broker: Broker): Route[] {
  const { integrations, providers, authorizations, webhookUrls, countIgnored } = broker;

  async function viewOf(integration: Integration) {
    const provider = providers.lookUp(integration.provider);
    const isRedirected = provider !== undefined && hasCallback(provider);
    const callbackUrl = isRedirected ? await authorizations.callbackUrl(integration) : undefined;
    return { integration, provider, callbackUrl };
  }

  const shown = async (integration: Integration) => integrationJson(await viewOf(integration));

  async function all(environment: string): Promise<Integration[]> {
    const found: Integration[] = [];
    let token = "";
    do {
      const { items, next } = await integrations.list({ environment, provider: "" }, { size: 1_000, token });
      found.push(...items);
      token = next;
    } while (token !== "");
    return found;
  }

  return [
    {
      method: "GET",
      path: "/integrations",
      scope: Scope.INTEGRATIONS_READ,
      async answer(request) {
        const { environment } = callerIn(request);
        return { status: 200, body: { data: await Promise.all((await all(environment)).map(shown)) } };
      },
    },
    {
      method: "POST",
      path: "/integrations",
      scope: Scope.INTEGRATIONS_WRITE,
      takesBody: true,
      async answer(request) {
        const { environment, actor } = callerIn(request);
        const { integration, credentialsType, ignored } = readIntegration(request.body, { environment, isNew: true });
        requireType(credentialsType, await providers.findNow(integration.provider));
        countIgnored("/integrations", ignored);
        return { status: 200, body: { data: await shown(await integrations.create(integration, actor)) } };
      },
    },
    {
      method: "POST",
      path: "/integrations/quickstart",
      scope: Scope.INTEGRATIONS_WRITE,
      takesBody: true,
      async answer(request) {
        const { environment, actor } = callerIn(request);
        const { integration, paths, ignored } = readIntegration(request.body, { environment, isNew: true });
        if (paths.some((path) => path.startsWith("oauth") || path.startsWith("secrets"))) {
          const message = "is not for a quickstart: POST /integrations takes an app of your own";
          throw new Fault("invalid_body", message, { mistakes: [{ path: ["credentials"], message }] });
        }
        const provider = await providers.findNow(integration.provider);
        countIgnored("/integrations/quickstart", ignored);
        const ready = { ...integration, ...quickstartApp(provider) };
        return { status: 200, body: { data: await shown(await integrations.create(ready, actor)) } };
      },
    },
    {
      method: "GET",
      path: "/integrations/:key",
      scope: Scope.INTEGRATIONS_READ,
      async answer(request) {
        const { environment, caller } = callerIn(request);
        const ref = { environment, key: request.params["key"] ?? "" };
        const include = request.query.list("include");
        const wrong = include.filter((one) => one !== "webhook" && one !== "credentials");
        if (wrong.length > 0) request.query.refuse("include", "must be webhook or credentials");
        request.query.end();
        const withCredentials = include.includes("credentials");
        if (withCredentials) requireScope(caller, Scope.CREDENTIALS_READ);
        const { value: integration } = await integrations.get(ref);
        const view = { ...(await viewOf(integration)), withCredentials };
        const webhookUrl = include.includes("webhook") ? await webhookUrls.of(integration) : undefined;
        const secrets = withCredentials ? await integrations.secretsOf(ref) : undefined;
        const data = integrationJson({ ...view, secrets, ...(webhookUrl === undefined ? {} : { webhookUrl }) });
        return { status: 200, body: { data } };
      },
    },
    {
      method: "PATCH",
      path: "/integrations/:key",
      scope: Scope.INTEGRATIONS_WRITE,
      takesBody: true,
      async answer(request) {
        const { environment, caller } = callerIn(request);
        const read = readIntegration(request.body, { environment, isNew: false });
        const { integration, credentialsType, paths, ignored } = read;
        const key = request.params["key"] ?? "";
        const { value: before } = await integrations.get({ environment, key });
        requireType(credentialsType, await providers.findNow(before.provider));
        if (integration.key !== "" && integration.key !== key) {
          const message = "an integration keeps its key: its connections are named by it";
          throw new Fault("invalid_body", message, { mistakes: [{ path: ["unique_key"], message }] });
        }
        countIgnored("/integrations/:key", ignored);
        if (paths.length === 0) return { status: 200, body: { data: await shown(before) } };
        const asked = { integration: { ...integration, key }, paths, expectedRevision: 0n };
        return { status: 200, body: { data: await shown(await integrations.update(asked, caller)) } };
      },
    },
    {
      method: "DELETE",
      path: "/integrations/:key",
      scope: Scope.INTEGRATIONS_WRITE,
      async answer(request) {
        const { environment, actor } = callerIn(request);
        await integrations.delete({ environment, key: request.params["key"] ?? "", expectedRevision: 0n }, actor);
        return { status: 200, body: { success: true } };
      },
    },
  ];
}

/** Whether each kind of credentials needs the customer's own app at the provider. */
const needsApp: { readonly [N in SchemeName]: boolean } = {
  ...{ oauth2: true, oauth2Client: true, oauth1: true, tba: true, app: true },
  ...{ apiKey: false, basic: false, jwt: false, twoStep: false, signature: false },
  ...{ awsSigv4: false, clientCertificate: false, none: false },
};

/** Returns the app of a quickstart integration: a public one, or none where the provider needs none. */
function quickstartApp({ name, auth, quickstartClient }: Provider): Partial<Pick<Integration, "oauth" | "secrets">> {
  if (quickstartClient !== undefined) {
    const { clientId, clientSecret } = quickstartClient;
    return {
      oauth: create(OAuthAppSchema, { clientId }),
      secrets: create(IntegrationSecretsSchema, { clientSecret }),
    };
  }
  if (auth.case === undefined || !needsApp[auth.case]) return {};
  const message =
    `${name} needs an app of your own: register one with the provider, with the redirect URI of this latchkey, and ` +
    "create the integration by POST /integrations with its client id and client secret";
  throw new Fault("invalid_body", "there is no quickstart for this provider", {
    mistakes: [{ path: ["provider"], message }],
  });
}

interface IntegrationReading {
  readonly environment: string;
  readonly isNew: boolean;
}

/** Reads the body of a creation or a change, and which fields the body names. */
function readIntegration(body: JsonObject, { environment, isNew }: IntegrationReading) {
  const findings: ReadingNotes = { mistakes: [], ignored: [] };
  const fields = readFields(body, { path: [], findings });
  const named: Record<string, unknown> = {};
  const key = isNew ? fields.requiredText("unique_key") : (fields.text("unique_key") ?? "");
  const provider = isNew ? fields.requiredText("provider") : "";
  const displayName = note(named, "display_name", bounded(fields, "display_name", maxDisplayName));
  const callback = note(named, "callback", readCallbackForm(fields));
  const forward = note(named, "no_forward", readFlag(fields, "forward_webhooks", body));
  const defaults = note(named, "connection_defaults", fields.textMap("integration_config"));
  const credentials = fields.object("credentials");
  const app = credentials === undefined ? undefined : readApp(credentials, named);
  fields.ignoreRest();
  if (!/^[A-Za-z0-9][A-Za-z0-9_.~:@-]{0,254}$/.test(key) && key !== "") {
    fields.refuse("unique_key", "must be letters, digits and _ . ~ : @ -, and begin with a letter or digit");
  }
  if (findings.mistakes.length > 0) {
    throw new Fault("invalid_body", "the integration is not valid", { mistakes: findings.mistakes });
  }
  const integration = create(IntegrationSchema, {
    environment,
    key,
    provider,
    displayName: displayName ?? "",
    ...(callback === undefined ? {} : { callback }),
    noForward: forward === false,
    connectionDefaults: defaults ?? {},
    ...(app === undefined ? {} : { oauth: app.oauth, secrets: app.secrets }),
  });
  const { type: credentialsType } = app ?? {};
  return { integration, credentialsType, paths: Object.keys(named), ignored: findings.ignored.length };
}

function readApp(fields: JsonFields, named: Record<string, unknown>) {
  const type = fields.text("type");
  const secret = (name: string, max = maxSecret) => note(named, `secrets.${name}`, bounded(fields, name, max)) ?? "";
  // An installed app has an app id where others have a client id.
  const id = bounded(fields, fields.has("client_id") ? "client_id" : "app_id", maxClientId);
  const clientId = note(named, "oauth.client_id", id) ?? "";
  const scopes = (note(named, "oauth.scopes", fields.text("scopes")) ?? "").split(/[\s,]+/).filter((one) => one !== "");
  if (scopes.length > maxScopes) fields.refuse("scopes", `must be at most ${maxScopes}`);
  const secrets = {
    clientSecret: secret("client_secret"),
    webhookSecret: secret("webhook_secret"),
    privateKey: secret("private_key"),
    clientCertificate: secret("client_certificate", maxCertificate),
    clientPrivateKey: secret("client_private_key"),
  };
  fields.ignoreRest();
  return { type, oauth: { clientId, scopes }, secrets };
}

/** Rejects credentials of another type than the provider's. */
function requireType(type: string | undefined, provider: Provider): void {
  const wanted = authModeOf(provider);
  if (type === undefined || type === wanted) return;
  const message = `must be ${wanted}, as the provider wants it`;
  const mistakes = [{ path: ["credentials", "type"], message }];
  throw new Fault("invalid_body", "the integration is not valid", { mistakes });
}

const callbackForms: Readonly<Record<string, Integration_Callback>> = {
  shared: Integration_Callback.SHARED,
  bound: Integration_Callback.BOUND,
};

function readCallbackForm(fields: JsonFields): Integration_Callback | undefined {
  const text = fields.text("callback");
  const form = callbackForms[text ?? ""];
  if (text !== undefined && form === undefined) fields.refuse("callback", "must be shared or bound");
  return form;
}

function bounded(fields: JsonFields, name: string, max: number): string | undefined {
  const text = fields.text(name);
  if (text !== undefined && text.length > max) fields.refuse(name, `must have at most ${max} characters`);
  return text;
}

function note<T>(named: Record<string, unknown>, path: string, value: T | undefined): T | undefined {
  if (value !== undefined) named[path] = value;
  return value;
}

function readFlag(fields: JsonFields, name: string, body: JsonObject): boolean | undefined {
  if (!fields.has(name)) return undefined;
  const value = body[name];
  if (typeof value === "boolean") return value;
  fields.refuse(name, "must be true or false");
  return undefined;
}
