import { type JsonObject, type JsonValue, toJson } from "@bufbuild/protobuf";
import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { assertNever } from "../../base/assert-never.ts";
import type { Connection, EndUser } from "../../gen/latchkey/v1/connection_pb.ts";
import type { ClientOverride, Credentials } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Integration, IntegrationSecrets } from "../../gen/latchkey/v1/integration_pb.ts";
import { type ConnectionField, type Provider, ProviderSchema } from "../../gen/latchkey/v1/provider_pb.ts";
import { authModeOf, authModes } from "./auth-mode.ts";

/**
 * Writes the SDK's dialect: flat credentials with a `type`, `created` in lists, ISO 8601 with milliseconds, and empty
 * fields that are always present. `core/dialect/import-line` and the routes read the dialect.
 */

const iso = (at: Timestamp | undefined): string => new Date(at === undefined ? 0 : timestampMs(at)).toISOString();

/**
 * A connection as list responses show it, plus the scopes that its end user did not grant: each missing scope is a
 * reason to ask again.
 */
export function connectionItem(connection: Connection): JsonObject {
  const { ref, number, provider, metadata = {}, tags, endUser, errors, missingScopes, createdAt } = connection;
  return {
    id: number,
    connection_id: ref?.id ?? "",
    provider_config_key: ref?.integration ?? "",
    provider,
    created: iso(createdAt),
    metadata,
    tags: { ...tags },
    errors: errors.map(({ type, logId }) => ({ type, log_id: logId })),
    end_user: endUserJson(endUser),
    missing_scopes: [...missingScopes],
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
    created_at: iso(createdAt),
    updated_at: iso(updatedAt),
    last_fetched_at: iso(lastFetchedAt ?? createdAt),
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

export function credentialsJson({ kind }: Credentials): JsonObject {
  if (kind.case === undefined) return {};
  const type = authModes[kind.case];
  switch (kind.case) {
    case "oauth2": {
      const { accessToken, refreshToken, expiresAt, raw, configOverride, dpopKey } = kind.value;
      return {
        type,
        access_token: accessToken,
        ...present({ refresh_token: refreshToken }),
        ...expiry(expiresAt),
        raw: raw ?? {},
        ...override(configOverride),
        ...present({ dpop_key: dpopKey }),
      };
    }
    case "oauth2Client": {
      const { token, clientId, clientSecret, expiresAt, raw, dpopKey } = kind.value;
      const { clientCertificate, clientPrivateKey } = kind.value;
      const keys = {
        client_certificate: clientCertificate,
        client_private_key: clientPrivateKey,
        dpop_key: dpopKey,
      };
      return {
        type,
        token,
        client_id: clientId,
        client_secret: clientSecret,
        ...present(keys),
        ...expiry(expiresAt),
        raw: raw ?? {},
      };
    }
    case "oauth1": {
      const { oauthToken, oauthTokenSecret, raw } = kind.value;
      return { type, oauth_token: oauthToken, oauth_token_secret: oauthTokenSecret, raw: raw ?? {} };
    }
    case "apiKey":
      return { type, apiKey: kind.value.apiKey };
    case "basic":
      return { type, username: kind.value.username, password: kind.value.password };
    case "tba": {
      const { tokenId, tokenSecret, configOverride } = kind.value;
      return { type, token_id: tokenId, token_secret: tokenSecret, ...override(configOverride) };
    }
    case "app": {
      const { appId, installationId, privateKey, accessToken, expiresAt, raw } = kind.value;
      const app = present({ app_id: appId, installation_id: installationId, private_key: privateKey });
      return { type, ...app, access_token: accessToken, ...expiry(expiresAt), raw: raw ?? {} };
    }
    case "jwt": {
      const { fields, token, expiresAt } = kind.value;
      return { ...fields, type, ...present({ token }), ...expiry(expiresAt) };
    }
    case "twoStep": {
      const { fields, token, refreshToken, expiresAt, raw } = kind.value;
      const tokens = present({ token, refresh_token: refreshToken });
      return { ...fields, type, ...tokens, ...expiry(expiresAt), raw: raw ?? {} };
    }
    case "signature": {
      const { username, password, token, expiresAt } = kind.value;
      return { type, username, password, ...present({ token }), ...expiry(expiresAt) };
    }
    case "awsSigv4": {
      const { accessKeyId, secretAccessKey, sessionToken, region, service, roleArn, externalId, expiresAt } =
        kind.value;
      const keys = { access_key_id: accessKeyId, secret_access_key: secretAccessKey, session_token: sessionToken };
      const where = { region, service, role_arn: roleArn };
      return { type, ...keys, ...where, ...present({ external_id: externalId }), ...expiry(expiresAt), raw: {} };
    }
    case "clientCertificate":
      return { type, certificate: kind.value.certificate, private_key: kind.value.privateKey };
    case "none":
      return { type };
  }
}

const expiry = (at: Timestamp | undefined): JsonObject => (at === undefined ? {} : { expires_at: iso(at) });

const override = (client: ClientOverride | undefined): JsonObject =>
  client === undefined
    ? {}
    : { config_override: present({ client_id: client.clientId, client_secret: client.clientSecret }) };

/** Removes empty fields: in protobuf, absent text is empty text. */
const present = (fields: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ""));

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
    created_at: iso(createdAt),
    updated_at: iso(updatedAt),
    ...(webhookUrl === undefined ? {} : { webhook_url: webhookUrl }),
    ...(callbackUrl === undefined ? {} : { callback_url: callbackUrl }),
    ...(withCredentials ? { credentials: appCredentials(integration, provider, secrets) } : {}),
  };
}

function appCredentials(
  { oauth }: Integration,
  provider: Provider | undefined,
  secrets: IntegrationSecrets | undefined,
): JsonValue {
  if (provider === undefined || (oauth === undefined && secrets === undefined)) return null;
  const privateKey = secrets?.privateKey ?? "";
  const { clientCertificate: client_certificate = "", clientPrivateKey: client_private_key = "" } = secrets ?? {};
  const certificate = present({ client_certificate, client_private_key });
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
    ...present({ example, pattern, default_value: defaultValue }),
    optional: !required,
    order,
    automated: automatic,
  };
}

function oauthUrls(auth: Provider["auth"]): JsonObject {
  switch (auth.case) {
    case "oauth2":
    case "oauth2Client":
      return present({
        authorization_url: auth.value.authorizationUrl,
        token_url: auth.value.tokenUrl,
        default_scopes: auth.value.defaultScopes,
        scope_separator: auth.value.scopeSeparator,
        authorization_params: auth.value.authorizationParams,
      });
    case "oauth1":
    case "tba":
      return {
        request_url: auth.value.requestTokenUrl,
        authorization_url: auth.value.authorizationUrl,
        token_url: auth.value.accessTokenUrl,
        signature_method: auth.value.signatureMethod || "HMAC-SHA1",
      };
    case "app":
      return { token_url: auth.value.tokenUrl };
    case "twoStep":
    case "apiKey":
    case "basic":
    case "jwt":
    case "signature":
    case "awsSigv4":
    case "clientCertificate":
    case "none":
    case undefined:
      return {};
    default:
      return assertNever(auth);
  }
}
