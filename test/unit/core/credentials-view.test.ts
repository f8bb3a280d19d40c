import { create, type JsonObject, type MessageInitShape } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { withoutRefreshToken } from "../../../src/core/credentials-view.ts";
import { type Credentials, CredentialsSchema } from "../../../src/gen/latchkey/v1/credentials_pb.ts";

type Kind = NonNullable<MessageInitShape<typeof CredentialsSchema>["kind"]>;
const credentials = (kind: Kind): Credentials => create(CredentialsSchema, { kind });
const hidden = "the-refresh-token";
const holdsIt = (value: unknown) =>
  JSON.stringify(value, (_, one) => (typeof one === "bigint" ? `${one}` : one)).includes(hidden);

const raw: JsonObject = {
  refresh_token: hidden,
  nested: { refreshToken: hidden, list: [{ RefreshToken: hidden, id: 1 }, hidden, "kept"] },
  called: hidden,
  token_type: "bearer",
  none: null,
};
const shown = { nested: { list: [{ id: 1 }, "kept"] }, token_type: "bearer", none: null };

it("hides the refresh token by its names and by its value, at any depth", () => {
  const oauth2 = credentials({ case: "oauth2", value: { accessToken: "a", refreshToken: hidden, raw } });
  const view = withoutRefreshToken(oauth2);
  expect(holdsIt(view)).toBe(false);
  expect(view.kind).toMatchObject({ case: "oauth2", value: { accessToken: "a", refreshToken: "", raw: shown } });
});

it("hides it in the exchange of a two-step provider too", () => {
  const value = { token: "t", refreshToken: hidden, raw, fields: { user: "u", renew: raw } };
  const view = withoutRefreshToken(credentials({ case: "twoStep", value }));
  expect(holdsIt(view)).toBe(false);
  expect(view.kind.value).toMatchObject({ token: "t", raw: shown, fields: { user: "u", renew: shown } });
});

it.each<Kind>([
  {
    case: "oauth2Client",
    value: { clientId: "i", clientSecret: "s", token: "t", raw: { refresh_token: hidden, a: 1 } },
  },
  { case: "oauth1", value: { oauthToken: "t", oauthTokenSecret: "s", raw: { refresh_token: hidden, a: 1 } } },
  { case: "app", value: { accessToken: "t", raw: { refresh_token: hidden, a: 1 } } },
  { case: "jwt", value: { token: "t", fields: { refresh_token: hidden, a: 1 } } },
])("hides it wherever the answer of a provider is kept ($case)", (kind) => {
  const view = withoutRefreshToken(credentials(kind));
  expect(holdsIt(view)).toBe(false);
  expect(JSON.stringify(view.kind.value)).toContain('{"a":1}');
});

it.each<Kind>([
  { case: "apiKey", value: { apiKey: hidden } },
  { case: "basic", value: { username: "refresh_token", password: hidden } },
  { case: "signature", value: { username: "u", password: "p" } },
  { case: "none", value: {} },
])("leaves credentials that have none as they are ($case)", (kind) => {
  const whole = credentials(kind);
  expect(withoutRefreshToken(whole)).toEqual(whole);
});

it("hides no other value because there is no refresh token", () => {
  const value = { accessToken: "a", raw: { empty: "", expires: 3_600 } };
  const view = withoutRefreshToken(credentials({ case: "oauth2", value }));
  expect(view.kind.value).toMatchObject({ raw: { empty: "", expires: 3_600 } });
});

it("does not change its input: the store's copy stays complete", () => {
  const oauth2 = credentials({ case: "oauth2", value: { accessToken: "a", refreshToken: hidden, raw } });
  const before = structuredClone(oauth2);
  withoutRefreshToken(oauth2);
  expect(oauth2).toEqual(before);
});
