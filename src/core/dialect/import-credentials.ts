import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { CredentialsSchema } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { AuthMode } from "./auth-mode.ts";
import type { JsonFields } from "./json-fields.ts";

type CredentialsInit = NonNullable<MessageInitShape<typeof CredentialsSchema>["kind"]>;

/**
 * Credential types of the SDK's dialect, each with a reader for its flat fields. Fields that no reader asks for are
 * ignored. A type that responses show but this table lacks is a compile error.
 */
const types = {
  OAUTH2(fields) {
    // Without an access token, the refresh token is used first.
    fields.requireOneOf("access_token", "refresh_token");
    const tokens = present({
      accessToken: fields.text("access_token"),
      refreshToken: fields.text("refresh_token"),
      dpopKey: fields.text("dpop_key"),
    });
    return { case: "oauth2", value: { ...tokens, ...expiry(fields), ...raw(fields), ...override(fields) } };
  },
  OAUTH2_CC(fields) {
    const clientId = fields.requiredText("client_id");
    const clientCertificate = fields.text("client_certificate");
    const clientPrivateKey = fields.text("client_private_key");
    const byCertificate = Boolean(clientCertificate && clientPrivateKey);
    const clientSecret = byCertificate ? fields.text("client_secret") : fields.requiredText("client_secret");
    const token = { token: fields.text("token"), dpopKey: fields.text("dpop_key") };
    const given = present({ clientSecret, clientCertificate, clientPrivateKey, ...token });
    return { case: "oauth2Client", value: { clientId, ...given, ...expiry(fields), ...raw(fields) } };
  },
  OAUTH1(fields) {
    const oauthToken = fields.requiredText("oauth_token");
    const oauthTokenSecret = fields.requiredText("oauth_token_secret");
    return { case: "oauth1", value: { oauthToken, oauthTokenSecret, ...raw(fields) } };
  },
  API_KEY(fields) {
    return { case: "apiKey", value: { apiKey: fields.requiredText("apiKey") } };
  },
  BASIC(fields) {
    // Either may be empty: some providers require that.
    fields.requireOneOf("username", "password");
    return { case: "basic", value: present({ username: fields.text("username"), password: fields.text("password") }) };
  },
  TBA(fields) {
    const tokenId = fields.requiredText("token_id");
    const tokenSecret = fields.requiredText("token_secret");
    return { case: "tba", value: { tokenId, tokenSecret, ...override(fields) } };
  },
  APP(fields) {
    // The app's ID and key may come from the integration, for all of its connections.
    fields.requireOneOf("installation_id", "access_token");
    const app = present({ appId: fields.text("app_id"), installationId: fields.text("installation_id") });
    const secrets = present({ privateKey: fields.text("private_key"), accessToken: fields.text("access_token") });
    return { case: "app", value: { ...app, ...secrets, ...expiry(fields), ...raw(fields) } };
  },
  // For JWT and TWO_STEP, the provider's description names the fields, so all remaining fields belong to the
  // credentials.
  JWT(fields) {
    const token = present({ token: fields.text("token") });
    return { case: "jwt", value: { ...token, ...expiresAt(fields), fields: fields.rest() } };
  },
  TWO_STEP(fields) {
    const tokens = present({ token: fields.text("token"), refreshToken: fields.text("refresh_token") });
    return { case: "twoStep", value: { ...tokens, ...expiresAt(fields), ...raw(fields), fields: fields.rest() } };
  },
  SIGNATURE(fields) {
    const username = fields.requiredText("username");
    const password = fields.requiredText("password");
    const token = present({ token: fields.text("token") });
    return { case: "signature", value: { username, password, ...token, ...expiry(fields) } };
  },
  AWS_SIGV4(fields) {
    const accessKeyId = fields.requiredText("access_key_id");
    const secretAccessKey = fields.requiredText("secret_access_key");
    const where = present({ region: fields.text("region"), service: fields.text("service") });
    const role = present({
      sessionToken: fields.text("session_token"),
      roleArn: fields.text("role_arn"),
      externalId: fields.text("external_id"),
    });
    return { case: "awsSigv4", value: { accessKeyId, secretAccessKey, ...where, ...role, ...expiry(fields) } };
  },
  CLIENT_CERTIFICATE(fields) {
    const certificate = fields.requiredText("certificate");
    const privateKey = fields.requiredText("private_key");
    return { case: "clientCertificate", value: { certificate, privateKey } };
  },
  NONE() {
    return { case: "none", value: {} };
  },
} as const satisfies { readonly [M in AuthMode]: (fields: JsonFields) => CredentialsInit };

/** Values of `type`, as the SDK writes them. */
export const credentialTypes: readonly string[] = Object.keys(types);

/**
 * Reads the flat `credentials` of the SDK's dialect. Returns undefined and records a mistake if the type is unknown.
 */
export function readCredentials(fields: JsonFields): CredentialsInit | undefined {
  const type = fields.requiredText("type");
  if (isType(type)) {
    const kind = types[type](fields);
    fields.ignoreRest();
    return kind;
  }
  if (type !== "")
    fields.refuse("type", `${quoted(type)} is not a type of credentials; ${credentialTypes.join(", ")} are`);
  return undefined;
}

const isType = (type: string): type is keyof typeof types => Object.hasOwn(types, type);

/** Quotes the value only if it looks like a type name: the caller may have put a secret there by mistake. */
const quoted = (type: string) => (/^[A-Za-z0-9_-]{1,24}$/.test(type) ? `"${type}"` : "this");

function expiresAt(fields: JsonFields) {
  const ms = fields.instant("expires_at");
  return ms === undefined ? {} : { expiresAt: timestampFromMs(ms) };
}

/** Rejects `expires_in`: without its start time, a lifetime could only be guessed. */
function expiry(fields: JsonFields) {
  if (fields.has("expires_in")) fields.refuse("expires_in", "does not say since when: give expires_at instead");
  return expiresAt(fields);
}

function raw(fields: JsonFields) {
  const value = fields.json("raw");
  return value === undefined ? {} : { raw: value };
}

function override(fields: JsonFields) {
  const given = fields.object("config_override");
  if (given === undefined) return {};
  const client = present({ clientId: given.text("client_id"), clientSecret: given.text("client_secret") });
  given.ignoreRest();
  // The SDK's types allow an empty override.
  return Object.keys(client).length === 0 ? {} : { configOverride: client };
}

/** Removes absent fields: a message must not receive undefined fields. */
function present<T extends Record<string, string | undefined>>(given: T) {
  // Only text values remain.
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as {
    [N in keyof T]?: string;
  };
}
