import { randomBytes } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ProviderSchema } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { setUp } from "./door.ts";
import type { TestSidecar } from "./harness.ts";

type Auth = NonNullable<MessageInitShape<typeof ProviderSchema>["auth"]>;

/**
 * One kind of credentials of the JSON routes: a provider that uses it, and credentials as `POST /connections` accepts
 * and shows them.
 */
export interface KindOfCredentials {
  readonly type: string;
  readonly auth: Auth;
  /** Everything that the kind can hold. Each value that is secret is got from `secret`, which makes it. */
  readonly whole: (secret: (name: string) => string) => Readonly<Record<string, unknown>>;
  /** The required fields only. */
  readonly least: Readonly<Record<string, unknown>>;
  /** With only the required fields, a token is requested before it is shown, and no test server answers here. */
  readonly isAskedFor?: boolean;
  /** Fields of the response beside those that were sent. */
  readonly added?: Readonly<Record<string, unknown>>;
}

const expires_at = "2999-01-02T03:04:05.678Z";
const urls = { authorizationUrl: "https://a.example/auth", tokenUrl: "https://a.example/token" };
const oauth1 = {
  requestTokenUrl: "https://a.example/request",
  authorizationUrl: "https://a.example/auth",
  accessTokenUrl: "https://a.example/token",
};
const token = { tokenUrl: "https://a.example/token" };

export const everyKind: readonly KindOfCredentials[] = [
  {
    type: "OAUTH2",
    auth: { case: "oauth2", value: urls },
    whole: (secret) => ({
      access_token: secret("access_token"),
      refresh_token: secret("refresh_token"),
      expires_at,
      raw: { access_token: secret("raw"), nested: { list: [{ token: secret("raw-deep") }], n: 1, none: null } },
      config_override: { client_id: "own", client_secret: secret("override") },
    }),
    least: { access_token: "t" },
    added: { raw: {} },
  },
  {
    type: "OAUTH2_CC",
    auth: { case: "oauth2Client", value: urls },
    whole: (secret) => ({
      client_id: "id",
      client_secret: secret("client_secret"),
      token: secret("token"),
      expires_at,
      raw: { access_token: secret("raw") },
      client_certificate: "certificate",
      client_private_key: secret("client_private_key"),
    }),
    least: { client_id: "id", client_secret: "s" },
    isAskedFor: true,
    added: { token: "", raw: {} },
  },
  {
    type: "OAUTH1",
    auth: { case: "oauth1", value: oauth1 },
    whole: (secret) => ({
      oauth_token: secret("token"),
      oauth_token_secret: secret("token_secret"),
      raw: { oauth_token: secret("raw") },
    }),
    least: { oauth_token: "t", oauth_token_secret: "s" },
    added: { raw: {} },
  },
  {
    type: "API_KEY",
    auth: { case: "apiKey", value: { header: "x-key" } },
    whole: (secret) => ({ apiKey: secret("key") }),
    least: { apiKey: "k" },
  },
  {
    type: "BASIC",
    auth: { case: "basic", value: {} },
    whole: (secret) => ({ username: secret("username"), password: secret("password") }),
    least: { username: "u" },
    added: { password: "" },
  },
  {
    type: "TBA",
    auth: { case: "tba", value: oauth1 },
    whole: (secret) => ({
      token_id: secret("token_id"),
      token_secret: secret("token_secret"),
      config_override: { client_id: "own", client_secret: secret("override") },
    }),
    least: { token_id: "t", token_secret: "s" },
  },
  {
    type: "APP",
    auth: { case: "app", value: token },
    whole: (secret) => ({
      app_id: "1",
      installation_id: "2",
      private_key: secret("private_key"),
      access_token: secret("access_token"),
      expires_at,
      raw: { token: secret("raw") },
    }),
    least: { installation_id: "2" },
    added: { access_token: "", raw: {} },
  },
  {
    type: "JWT",
    auth: { case: "jwt", value: token },
    whole: (secret) => ({
      privateKey: { id: "k", secret: secret("private_key") },
      token: secret("token"),
      expires_at,
    }),
    least: {},
  },
  {
    type: "TWO_STEP",
    auth: { case: "twoStep", value: token },
    whole: (secret) => ({
      username: "u",
      api_password: secret("field"),
      deep: [{ key: secret("field-deep") }],
      token: secret("token"),
      refresh_token: secret("refresh_token"),
      expires_at,
      raw: { token: secret("raw") },
    }),
    least: { username: "u" },
    isAskedFor: true,
    added: { raw: {} },
  },
  {
    type: "SIGNATURE",
    auth: { case: "signature", value: token },
    whole: (secret) => ({
      username: secret("username"),
      password: secret("password"),
      token: secret("token"),
      expires_at,
    }),
    least: { username: "u", password: "p" },
  },
  {
    type: "AWS_SIGV4",
    auth: { case: "awsSigv4", value: {} },
    whole: (secret) => ({
      access_key_id: "AKIA",
      secret_access_key: secret("secret_access_key"),
      session_token: secret("session_token"),
      region: "eu-central-1",
      service: "s3",
      role_arn: "arn",
      external_id: "x",
      expires_at,
    }),
    least: { access_key_id: "AKIA", secret_access_key: "s" },
    added: { session_token: "", region: "", service: "", role_arn: "", raw: {} },
  },
  {
    type: "CLIENT_CERTIFICATE",
    auth: { case: "clientCertificate", value: {} },
    whole: (secret) => ({ certificate: "certificate", private_key: secret("private_key") }),
    least: { certificate: "c", private_key: "k" },
  },
  {
    type: "ON_BEHALF",
    auth: {
      case: "onBehalf",
      value: {
        grant: "token_exchange",
        authorizationServer: token,
        identityProvider: { issuer: "https://idp.example", jwksUrl: "https://idp.example/keys" },
        subjectAudience: "app",
      },
    },
    whole: () => ({}),
    least: {},
  },
  { type: "NONE", auth: { case: "none", value: {} }, whole: () => ({}), least: {} },
];

/** The integration of a kind, once `setUpEveryKind` has made it. */
export const integrationOf = ({ type }: Pick<KindOfCredentials, "type">): string =>
  `kind-${type.toLowerCase().replaceAll("_", "-")}`;

export async function setUpEveryKind(running: TestSidecar): Promise<void> {
  for (const kind of everyKind) await setUp(running, { name: integrationOf(kind), auth: kind.auth });
}

/** Text that is found wherever it went: it is random, and there is nothing else like it. */
export const canary = (name: string): string => `canary-${name}-${randomBytes(12).toString("hex")}`;
