import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { refreshedCredentials } from "../../../src/auth/credential-refresh.ts";
import { CredentialsSchema } from "../../../src/gen/latchkey/v1/credentials_pb.ts";

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
