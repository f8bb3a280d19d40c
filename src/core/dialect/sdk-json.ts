import { type JsonObject, type JsonValue, toJson } from "@bufbuild/protobuf";
import type { RulesOf, SchemeName } from "../../auth/scheme.ts";
import type { Connection, EndUser } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Credentials } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Integration, IntegrationSecrets } from "../../gen/latchkey/v1/integration_pb.ts";
import {
  type ConnectionField,
  type OAuth1Rules,
  type OAuth2Rules,
  type Provider,
  ProviderSchema,
} from "../../gen/latchkey/v1/provider_pb.ts";
import { plainSettings } from "../integration-settings.ts";
import { isoTime, presentJson } from "./credential-fields.ts";
import { authModeOf, credentialsJson } from "./credentials.ts";

/**
 * Writes the SDK's dialect: flat credentials with a `type`, `created` in lists, ISO 8601 with milliseconds, and empty
 * fields that are always present. `core/dialect/import-line` and the routes read the dialect.
 */

/**
 * A connection as list responses show it, plus the scopes that its end user did not grant: each missing scope is a
 * reason to ask again.
 */
export function connectionItem(connection: Connection): JsonObject {
  const {
    ref,
    number,
    provider,
    metadata = {},
    tags,
    endUser,
    errors,
    missingScopes,
    choicesNeeded,
    createdAt,
  } = connection;
  return {
    id: number,
    connection_id: ref?.id ?? "",
    provider_config_key: ref?.integration ?? "",
    provider,
    created: isoTime(createdAt),
    metadata,
    tags: { ...tags },
    errors: errors.map(({ type, logId }) => ({ type, log_id: logId })),
    end_user: endUserJson(endUser),
    missing_scopes: [...missingScopes],
    ...(choicesNeeded.length === 0 ? {} : { choices_needed: [...choicesNeeded] }),
  };
}

/** A whole connection. Credentials are `{}` if the caller may not see them or did not ask for them. */
export function connectionFull(connection: Connection, credentials: Credentials | undefined): JsonObject {
  const { created: _, ...item } = connectionItem(connection);
  const { connectionConfig = {}, webhookUrlOverride, grantedScopes, createdAt, updatedAt, lastFetchedAt } = connection;
  return {
    ...item,
    granted_scopes: [...grantedScopes],
    connection_config: connectionConfig,
    webhook_url_override: webhookUrlOverride === "" ? null : webhookUrlOverride,
    created_at: isoTime(createdAt),
    updated_at: isoTime(updatedAt),
    last_fetched_at: isoTime(lastFetchedAt ?? createdAt),
    credentials: credentials === undefined ? {} : credentialsJson(credentials),
  };
}

export function endUserJson(endUser: EndUser | undefined): JsonValue {
  if (endUser === undefined) return null;
  const { id, email, displayName, tags, organization } = endUser;
  return {
    id,
    email: email || null,
    display_name: displayName || null,
    tags: { ...tags },
    organization:
      organization === undefined ? null : { id: organization.id, display_name: organization.displayName || null },
  };
}

interface IntegrationView {
  readonly integration: Integration;
  /** Undefined if the provider no longer exists; the integration is shown anyway. */
  readonly provider: Provider | undefined;
  readonly webhookUrl?: string;
  /** The redirect URI to register at the provider; undefined if its connections need no authorization page. */
  readonly callbackUrl?: string | undefined;
  readonly secrets?: IntegrationSecrets | undefined;
  readonly withCredentials?: boolean;
}

export function integrationJson({
  integration,
  provider,
  webhookUrl,
  callbackUrl,
  secrets,
  withCredentials = false,
}: IntegrationView): JsonObject {
  const { key, displayName, createdAt, updatedAt, noForward } = integration;
  return {
    unique_key: key,
    provider: integration.provider,
    display_name: displayName || provider?.displayName || key,
    logo: "",
    forward_webhooks: !noForward,
    created_at: isoTime(createdAt),
    updated_at: isoTime(updatedAt),
    ...(webhookUrl === undefined ? {} : { webhook_url: webhookUrl }),
    ...(callbackUrl === undefined ? {} : { callback_url: callbackUrl }),
    ...settingsJson(integration, provider, withCredentials ? secrets : undefined),
    ...(withCredentials ? { credentials: appCredentials(integration, provider, secrets) } : {}),
  };
}

/** The values of `integration_settings`; the secret ones only with the integration's secrets. */
function settingsJson(
  integration: Integration,
  provider: Provider | undefined,
  secrets: IntegrationSecrets | undefined,
): JsonObject {
  const settings = { ...plainSettings(integration, provider), ...secrets?.settings };
  return Object.keys(settings).length === 0 ? {} : { settings };
}

function appCredentials(
  { oauth }: Integration,
  provider: Provider | undefined,
  secrets: IntegrationSecrets | undefined,
): JsonValue {
  if (provider === undefined || (oauth === undefined && secrets === undefined)) return null;
  const privateKey = secrets?.privateKey ?? "";
  const { clientCertificate: client_certificate = "", clientPrivateKey: client_private_key = "" } = secrets ?? {};
  const certificate = presentJson({ client_certificate, client_private_key });
  const type = authModeOf(provider);
  if (provider.auth.case === "app") {
    return { type, app_id: oauth?.clientId || null, private_key: privateKey || null, app_link: null, ...certificate };
  }
  return {
    type,
    client_id: oauth?.clientId || null,
    client_secret: secrets?.clientSecret || null,
    scopes: oauth?.scopes.join(",") || null,
    webhook_secret: secrets?.webhookSecret || null,
    ...(privateKey === "" ? {} : { private_key: privateKey }),
    ...certificate,
  };
}

/** A provider: the fields of the SDK's types, and the description as the catalogue writes it. */
export function providerJson(provider: Provider): JsonObject {
  const { name, displayName, categories, docsUrl, auth, proxy, connectionFields } = provider;
  const {
    custom: _custom,
    declared: _declared,
    created_at: _created,
    updated_at: _updated,
    revision: _revision,
    ...described
  } = toJson(ProviderSchema, provider, { useProtoFieldName: true }) as JsonObject;
  return {
    ...described,
    name,
    display_name: displayName,
    logo_url: "",
    auth_mode: authModeOf(provider),
    categories,
    docs: docsUrl,
    ...(proxy === undefined ? {} : { proxy: { ...(described["proxy"] as JsonObject), base_url: proxy.baseUrl } }),
    connection_config: Object.fromEntries(connectionFields.map((field, i) => [field.name, fieldJson(field, i + 1)])),
    ...oauthUrls(auth),
  };
}

function fieldJson(field: ConnectionField, order: number): JsonObject {
  const { name, title, description, example, pattern, required, automatic, defaultValue } = field;
  return {
    type: "string",
    title: title || name,
    description,
    ...presentJson({ example, pattern, default_value: defaultValue }),
    optional: !required,
    order,
    automated: automatic,
  };
}

/** The OAuth addresses of each kind's rules, in the SDK's field names. */
const oauthUrlsByKind: { readonly [N in SchemeName]: (rules: RulesOf<N>) => JsonObject } = {
  oauth2: oauth2Urls,
  oauth2Client: oauth2Urls,
  oauth1: oauth1Urls,
  tba: oauth1Urls,
  app: ({ tokenUrl }) => ({ token_url: tokenUrl }),
  twoStep: () => ({}),
  apiKey: () => ({}),
  basic: () => ({}),
  jwt: () => ({}),
  signature: () => ({}),
  awsSigv4: () => ({}),
  clientCertificate: () => ({}),
  none: () => ({}),
  onBehalf: ({ authorizationServer }) => (authorizationServer === undefined ? {} : oauth2Urls(authorizationServer)),
};

function oauthUrls(auth: Provider["auth"]): JsonObject {
  if (auth.case === undefined) return {};
  // The table holds a function of each kind under the kind's own name.
  return (oauthUrlsByKind[auth.case] as (rules: RulesOf<SchemeName>) => JsonObject)(auth.value);
}

function oauth2Urls(rules: OAuth2Rules): JsonObject {
  return presentJson({
    authorization_url: rules.authorizationUrl,
    token_url: rules.tokenUrl,
    default_scopes: rules.defaultScopes,
    scope_separator: rules.scopeSeparator,
    authorization_params: rules.authorizationParams,
  });
}

function oauth1Urls(rules: OAuth1Rules): JsonObject {
  return {
    request_url: rules.requestTokenUrl,
    authorization_url: rules.authorizationUrl,
    token_url: rules.accessTokenUrl,
    signature_method: rules.signatureMethod || "HMAC-SHA1",
  };
}
