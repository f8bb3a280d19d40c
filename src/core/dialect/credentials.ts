import type { JsonObject, MessageInitShape } from "@bufbuild/protobuf";
import type { CredentialsOf, SchemeName } from "../../auth/scheme.ts";
import type { Credentials, CredentialsSchema } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import {
  clientOverride,
  clientOverrideJson,
  expiry,
  expiryJson,
  expiryTime,
  furtherTokens,
  furtherTokensJson,
  present,
  presentJson,
  raw,
} from "./credential-fields.ts";
import type { JsonFields } from "./json-fields.ts";

type CredentialsInit = NonNullable<MessageInitShape<typeof CredentialsSchema>["kind"]>;
type InitOf<N extends SchemeName> = Extract<CredentialsInit, { case: N }>["value"];

/** One kind of credentials in the SDK's dialect: flat fields with a `type`. */
interface CredentialDialect<N extends SchemeName> {
  /** The value of `type`. */
  readonly type: string;
  /** Reads the flat fields. Fields that it does not ask for are ignored. */
  readonly read: (fields: JsonFields) => InitOf<N>;
  readonly write: (credentials: CredentialsOf<N>) => JsonObject;
}

/** All kinds of credentials. A kind that exists in the proto but not in this table is a compile error. */
const kinds: { readonly [N in SchemeName]: CredentialDialect<N> } = {
  oauth2: {
    type: "OAUTH2",
    read(fields) {
      // Without an access token, the refresh token is used first.
      fields.requireOneOf("access_token", "refresh_token");
      const tokens = present({
        accessToken: fields.text("access_token"),
        refreshToken: fields.text("refresh_token"),
        dpopKey: fields.text("dpop_key"),
      });
      const further = furtherTokens(fields);
      return { ...tokens, ...expiry(fields), ...raw(fields), ...clientOverride(fields), ...further };
    },
    write: ({ accessToken, refreshToken, expiresAt, raw: answer, configOverride, dpopKey, furtherTokens: named }) => ({
      access_token: accessToken,
      ...presentJson({ refresh_token: refreshToken }),
      ...expiryJson(expiresAt),
      raw: answer ?? {},
      ...clientOverrideJson(configOverride),
      ...presentJson({ dpop_key: dpopKey }),
      ...furtherTokensJson(named),
    }),
  },
  oauth2Client: {
    type: "OAUTH2_CC",
    read(fields) {
      const clientId = fields.requiredText("client_id");
      const clientCertificate = fields.text("client_certificate");
      const clientPrivateKey = fields.text("client_private_key");
      const byCertificate = Boolean(clientCertificate && clientPrivateKey);
      const clientSecret = byCertificate ? fields.text("client_secret") : fields.requiredText("client_secret");
      const token = { token: fields.text("token"), dpopKey: fields.text("dpop_key") };
      const given = present({ clientSecret, clientCertificate, clientPrivateKey, ...token });
      return { clientId, ...given, ...expiry(fields), ...raw(fields) };
    },
    write({ token, clientId, clientSecret, expiresAt, raw: answer, dpopKey, clientCertificate, clientPrivateKey }) {
      const keys = {
        client_certificate: clientCertificate,
        client_private_key: clientPrivateKey,
        dpop_key: dpopKey,
      };
      const client = { client_id: clientId, client_secret: clientSecret, ...presentJson(keys) };
      return { token, ...client, ...expiryJson(expiresAt), raw: answer ?? {} };
    },
  },
  oauth1: {
    type: "OAUTH1",
    read(fields) {
      const oauthToken = fields.requiredText("oauth_token");
      const oauthTokenSecret = fields.requiredText("oauth_token_secret");
      return { oauthToken, oauthTokenSecret, ...raw(fields) };
    },
    write: ({ oauthToken, oauthTokenSecret, raw: answer }) => ({
      oauth_token: oauthToken,
      oauth_token_secret: oauthTokenSecret,
      raw: answer ?? {},
    }),
  },
  apiKey: {
    type: "API_KEY",
    read: (fields) => ({ apiKey: fields.requiredText("apiKey") }),
    write: ({ apiKey }) => ({ apiKey }),
  },
  basic: {
    type: "BASIC",
    read(fields) {
      // Either may be empty: some providers require that.
      fields.requireOneOf("username", "password");
      return present({ username: fields.text("username"), password: fields.text("password") });
    },
    write: ({ username, password }) => ({ username, password }),
  },
  tba: {
    type: "TBA",
    read(fields) {
      const tokenId = fields.requiredText("token_id");
      const tokenSecret = fields.requiredText("token_secret");
      return { tokenId, tokenSecret, ...clientOverride(fields) };
    },
    write: ({ tokenId, tokenSecret, configOverride }) => ({
      token_id: tokenId,
      token_secret: tokenSecret,
      ...clientOverrideJson(configOverride),
    }),
  },
  app: {
    type: "APP",
    read(fields) {
      // The app's ID and key may come from the integration, for all of its connections.
      fields.requireOneOf("installation_id", "access_token");
      const app = present({ appId: fields.text("app_id"), installationId: fields.text("installation_id") });
      const secrets = present({ privateKey: fields.text("private_key"), accessToken: fields.text("access_token") });
      return { ...app, ...secrets, ...expiry(fields), ...raw(fields) };
    },
    write({ appId, installationId, privateKey, accessToken, expiresAt, raw: answer }) {
      const app = presentJson({ app_id: appId, installation_id: installationId, private_key: privateKey });
      return { ...app, access_token: accessToken, ...expiryJson(expiresAt), raw: answer ?? {} };
    },
  },
  // For JWT and TWO_STEP, the provider's description names the fields, so all remaining fields belong to the
  // credentials.
  jwt: {
    type: "JWT",
    read(fields) {
      const token = present({ token: fields.text("token") });
      return { ...token, ...expiryTime(fields), fields: fields.rest() };
    },
    write: ({ fields, token, expiresAt }) => ({ ...fields, ...presentJson({ token }), ...expiryJson(expiresAt) }),
  },
  twoStep: {
    type: "TWO_STEP",
    read(fields) {
      const tokens = present({ token: fields.text("token"), refreshToken: fields.text("refresh_token") });
      return { ...tokens, ...expiryTime(fields), ...raw(fields), fields: fields.rest() };
    },
    write({ fields, token, refreshToken, expiresAt, raw: answer }) {
      const tokens = presentJson({ token, refresh_token: refreshToken });
      return { ...fields, ...tokens, ...expiryJson(expiresAt), raw: answer ?? {} };
    },
  },
  signature: {
    type: "SIGNATURE",
    read(fields) {
      const username = fields.requiredText("username");
      const password = fields.requiredText("password");
      return { username, password, ...present({ token: fields.text("token") }), ...expiry(fields) };
    },
    write: ({ username, password, token, expiresAt }) => ({
      username,
      password,
      ...presentJson({ token }),
      ...expiryJson(expiresAt),
    }),
  },
  awsSigv4: {
    type: "AWS_SIGV4",
    read(fields) {
      const accessKeyId = fields.requiredText("access_key_id");
      const secretAccessKey = fields.requiredText("secret_access_key");
      const scope = present({ region: fields.text("region"), service: fields.text("service") });
      const role = present({
        sessionToken: fields.text("session_token"),
        roleArn: fields.text("role_arn"),
        externalId: fields.text("external_id"),
      });
      return { accessKeyId, secretAccessKey, ...scope, ...role, ...expiry(fields) };
    },
    write({ accessKeyId, secretAccessKey, sessionToken, region, service, roleArn, externalId, expiresAt }) {
      const keys = { access_key_id: accessKeyId, secret_access_key: secretAccessKey, session_token: sessionToken };
      const role = { role_arn: roleArn, ...presentJson({ external_id: externalId }) };
      return { ...keys, region, service, ...role, ...expiryJson(expiresAt), raw: {} };
    },
  },
  clientCertificate: {
    type: "CLIENT_CERTIFICATE",
    read(fields) {
      const certificate = fields.requiredText("certificate");
      const privateKey = fields.requiredText("private_key");
      return { certificate, privateKey };
    },
    write: ({ certificate, privateKey }) => ({ certificate, private_key: privateKey }),
  },
  none: { type: "NONE", read: () => ({}), write: () => ({}) },
  onBehalf: { type: "ON_BEHALF", read: () => ({}), write: () => ({}) },
};

/** Values of `type`, as the SDK writes them. */
export const credentialTypes: readonly string[] = Object.values(kinds).map(({ type }) => type);

/** The kind of credentials that a provider's connections hold, in the SDK's dialect. */
export const authModeOf = ({ auth }: Provider): string => typeOf(auth.case ?? "none");

export const typeOf = (kind: SchemeName): string => kinds[kind].type;

export function credentialsJson({ kind }: Credentials): JsonObject {
  if (kind.case === undefined) return {};
  // The table holds a dialect of each kind under the kind's own name.
  const { type, write } = kinds[kind.case] as CredentialDialect<SchemeName>;
  // Free-form fields may have any name, but none replaces the type.
  return Object.assign({ type }, write(kind.value), { type });
}

/**
 * Reads the flat `credentials` of the SDK's dialect. Returns undefined and records a mistake if the type is unknown.
 */
export function readCredentials(fields: JsonFields): CredentialsInit | undefined {
  const type = fields.requiredText("type");
  const kind = kindsByType.get(type);
  if (kind !== undefined) {
    // A dialect reads the fields of its own kind.
    const init = { case: kind, value: kinds[kind].read(fields) } as CredentialsInit;
    fields.ignoreRest();
    return init;
  }
  if (type !== "")
    fields.refuse("type", `${quoted(type)} is not a type of credentials; ${credentialTypes.join(", ")} are`);
  return undefined;
}

// The keys of the table are the names of the kinds.
const kindsByType = new Map((Object.keys(kinds) as SchemeName[]).map((kind) => [kinds[kind].type, kind]));

/** Quotes the value only if it looks like a type name: the caller may have put a secret there by mistake. */
const quoted = (type: string) => (/^[A-Za-z0-9_-]{1,24}$/.test(type) ? `"${type}"` : "this");
