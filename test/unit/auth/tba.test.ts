import { expect, it } from "vitest";
import { attachSigning, draftOf, form, refusalOf, type Setting } from "./fixtures.ts";

const value = { tokenId: "tk-1", tokenSecret: "t s" };
const setting: Setting = {
  auth: { case: "tba", value: { realm: "${connectionConfig.accountId}" } },
  kind: { case: "tba", value },
  client: { id: "ck-1", secret: "c&s" },
  connectionConfig: { accountId: "123456_SB1" },
};
const draft = draftOf("POST", "https://api.example.com/v1/post", { ...form("status=x"), nowMs: 1_700_000_000_000 });
const signed = (other: Partial<Setting> = {}) =>
  attachSigning({ ...setting, ...other }).sign(draft).headers[0]?.[1] ?? "";

it("signs with HMAC-SHA256 and the connection's account as the realm", () => {
  expect(signed()).toMatch(/^OAuth realm="123456_SB1", oauth_consumer_key="ck-1", oauth_token="tk-1", /);
  expect(signed()).toContain('oauth_signature_method="HMAC-SHA256"');
  expect(signed()).toContain(encodeURIComponent("VMLfrdSPaKMhk3+nRTS6im3ynv4DJs66nL1K+K5CwIE="));
});

it("prefers the connection's own consumer to the integration's", () => {
  const own = { case: "tba", value: { ...value, configOverride: { clientId: "ck-1", clientSecret: "c&s" } } } as const;
  expect(signed({ kind: own, client: { id: "other", secret: "other" } })).toBe(signed());
  expect(attachSigning({ auth: setting.auth, kind: own, connectionConfig: { accountId: "1" } }).kind).toBe("signing");
});

it("does not take an account apart that looks like a name", () => {
  expect(signed({ connectionConfig: { accountId: "${connectionConfig.accountId}$&" } })).toContain(
    'realm="${connectionConfig.accountId}$&"',
  );
});

it.each<[string, Partial<Setting>]>([
  ["the provider requires connectionConfig.accountId, which is missing", { connectionConfig: {} }],
  ["the provider requires connectionConfig.accountId as text", { connectionConfig: { accountId: {} } }],
  [
    "the realm must not contain line breaks or other characters that are not allowed in a header",
    { connectionConfig: { accountId: "1\r\nx: y" } },
  ],
])("says that %s", (message, other) => {
  expect(refusalOf({ ...setting, ...other })).toBe(message);
});
