import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { canRefresh, refreshedCredentials, tokenRefreshOf } from "../../../src/auth/credential-refresh.ts";
import { CredentialsSchema } from "../../../src/gen/latchkey/v1/credentials_pb.ts";
import { ProviderSchema } from "../../../src/gen/latchkey/v1/provider_pb.ts";

const tokens = {
  accessToken: "next",
  refreshToken: undefined,
  expiresAtMs: undefined,
  refreshExpiresAtMs: undefined,
  scopes: undefined,
  raw: {},
  connectionConfig: {},
  metadata: {},
  idToken: undefined,
};

it.each([
  ["the key that it came bound to", "the-key", "the-key"],
  ["no key, when it came bound to none", undefined, ""],
])("keeps with a new token %s", (_what, dpopKey, kept) => {
  const value = { accessToken: "one", refreshToken: "r", dpopKey: "the-key" };
  const next = refreshedCredentials(create(CredentialsSchema, { kind: { case: "oauth2", value } }), {
    ...tokens,
    dpopKey,
  });
  expect(next.value).toMatchObject({ accessToken: "next", refreshToken: "r", dpopKey: kept });
  const own = create(CredentialsSchema, {
    kind: { case: "oauth2Client", value: { token: "one", dpopKey: "the-key" } },
  });
  expect(refreshedCredentials(own, { ...tokens, dpopKey }).value).toMatchObject({ token: "next", dpopKey: kept });
});

type Kind = NonNullable<MessageInitShape<typeof CredentialsSchema>["kind"]>;
type Auth = NonNullable<MessageInitShape<typeof ProviderSchema>["auth"]>;

const tokenUrl = "https://provider.example/token";
const refreshOf = (kind: Kind, auth: Auth) =>
  tokenRefreshOf({
    credentials: create(CredentialsSchema, { kind }),
    provider: create(ProviderSchema, { auth }),
    integration: {},
  });

it.each<[string, Kind, Auth, string]>([
  [
    "a refresh token",
    { case: "oauth2", value: { accessToken: "a", refreshToken: "r" } },
    { case: "oauth2", value: { tokenUrl } },
    "refresh_token",
  ],
  [
    "an access token that is exchanged",
    { case: "oauth2", value: { accessToken: "a" } },
    { case: "oauth2", value: { tokenUrl, renewal: { accessToken: true } } },
    "renewal",
  ],
  [
    "the application's own client",
    { case: "oauth2Client", value: { clientId: "c", clientSecret: "s" } },
    { case: "oauth2Client", value: { metadataUrl: tokenUrl } },
    "client_credentials",
  ],
  [
    "an installed app",
    { case: "app", value: { appId: "1", installationId: "2" } },
    { case: "app", value: { tokenUrl } },
    "described",
  ],
  [
    "fields that are exchanged",
    { case: "twoStep", value: { fields: { user: "ada" } } },
    { case: "twoStep", value: { tokenUrl } },
    "described",
  ],
  [
    "a signature",
    { case: "signature", value: { username: "u", password: "p" } },
    { case: "signature", value: { tokenUrl } },
    "described",
  ],
])("refreshes %s", (_what, kind, auth, grant) => {
  expect(refreshOf(kind, auth)?.grant.type).toBe(grant);
});

it.each<[string, Kind, Auth]>([
  ["an access token alone", { case: "oauth2", value: { accessToken: "a" } }, { case: "oauth2", value: { tokenUrl } }],
  [
    "a refresh token without an endpoint",
    { case: "oauth2", value: { refreshToken: "r" } },
    { case: "oauth2", value: {} },
  ],
  [
    "an access token that was exchanged before the provider changed its kind",
    { case: "oauth2", value: { accessToken: "a" } },
    { case: "oauth2Client", value: { tokenUrl, renewal: { accessToken: true } } },
  ],
  ["a JWT, which is minted for each use", { case: "jwt", value: { token: "t" } }, { case: "jwt", value: { tokenUrl } }],
  ["a key", { case: "apiKey", value: { apiKey: "k" } }, { case: "apiKey", value: {} }],
])("does not refresh %s", (_what, kind, auth) => {
  expect(refreshOf(kind, auth)).toBeUndefined();
});

it("exchanges an access token only until it expires", () => {
  const provider = create(ProviderSchema, { auth: { case: "oauth2", value: { renewal: { accessToken: true } } } });
  const value = { accessToken: "a", expiresAt: { seconds: 10n, nanos: 0 } };
  const credentials = create(CredentialsSchema, { kind: { case: "oauth2", value } });
  expect(canRefresh(credentials, provider, 9_999)).toBe(true);
  expect(canRefresh(credentials, provider, 10_000)).toBe(false);
});
