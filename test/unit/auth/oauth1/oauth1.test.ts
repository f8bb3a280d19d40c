import { expect, it } from "vitest";
import type { RequestDraft } from "../../../../src/auth/attachment.ts";
import { attachSigning, draftOf, form, refusalOf, rsaKey, type Setting } from "../fixtures.ts";

const client = { id: "ck-1", secret: "c&s" };
const settingOf = (method: string, rest: Partial<Setting> = {}): Setting => ({
  auth: { case: "oauth1", value: { signatureMethod: method } },
  kind: { case: "oauth1", value: { oauthToken: "tk-1", oauthTokenSecret: "t s" } },
  client,
  ...rest,
});

function authorization(setting: Setting, draft: RequestDraft): string {
  const { headers } = attachSigning(setting).sign(draft);
  expect(headers.map(([name]) => name)).toEqual(["authorization"]);
  return headers[0]?.[1] ?? "";
}
const signatureIn = (header: string) => decodeURIComponent(/oauth_signature="([^"]*)"/.exec(header)?.[1] ?? "");

const at = (method: string, url: string, rest: Partial<RequestDraft> = {}) =>
  draftOf(method, url, { nowMs: 1_700_000_000_999, nonce: "n0nce", ...rest });
const status = "Ladies + Gentlemen! it's 100% (ok)* ☃";

it.each([
  ["HMAC-SHA1", at("GET", "https://API.Example.com:443/v1/items?b=2&a=1"), "A9QI6vJTGZRkBAJv7hYlyCCy8Hw="],
  ["HMAC-SHA1", at("GET", "https://api.example.com/v1/items?a=2&a=1&z="), "fpK1SdDffT0YY8tVFIJhWRkp894="],
  [
    "HMAC-SHA1",
    at("POST", "https://api.example.com/v1/post", form(`${new URLSearchParams({ status })}`)),
    "S2FTKt+cRW3BqGH3fHcCfn2EZtQ=",
  ],
  [
    "HMAC-SHA256",
    at("POST", "https://api.example.com/v1/post", form("status=x")),
    "VMLfrdSPaKMhk3+nRTS6im3ynv4DJs66nL1K+K5CwIE=",
  ],
  ["HMAC-SHA1", at("GET", "https://api.example.com/v1/files/a%2Fb?x=%20y"), "fUvkPSBXHE1SoPSbziKxeoqvAlc="],
  ["PLAINTEXT", at("GET", "https://api.example.com/v1/items"), "c%26s&t%20s"],
])("signs with %s (%#)", (method, draft, signature) => {
  expect(signatureIn(authorization(settingOf(method), draft))).toBe(signature);
});

it.each([
  ["1.1", "hCtSmYh+iHYCEqBWrE7C7hYmtUk="],
  ["1", "tnnArxj06cWHq44gCs1OSKk/jLY="],
])("signs the example in Twitter's documentation, version %s", (version, signature) => {
  const setting = settingOf("", {
    kind: {
      case: "oauth1",
      value: {
        oauthToken: "370773112-GmHxMAgYyLbNEtIKZeRNFsMKPR9EyMZeS9weJAEb",
        oauthTokenSecret: "LswwdoUaIvS8ltyTt5jkRh4J50vUPVVHtR2YPi5kE",
      },
    },
    client: { id: "xvz1evFS4wEEPTGEFPHBog", secret: "kAcSOqF21Fu85e7zjz7ZN2U4ZRhfV3WpwPAoE3Z7kBw" },
  });
  const body = form("status=Hello%20Ladies%20%2b%20Gentlemen%2c%20a%20signed%20OAuth%20request%21");
  const url = `https://api.twitter.com/${version}/statuses/update.json?include_entities=true`;
  const moment = { nowMs: 1_318_622_958_000, nonce: "kYjzVBB8Y0ZFabxSWbWovY3uYSQ2pTgmZeNu2VS4cg" };
  expect(signatureIn(authorization(setting, draftOf("POST", url, { ...body, ...moment })))).toBe(signature);
});

it("writes its parameters into one header, percent-encoded", () => {
  const setting = settingOf("PLAINTEXT", {
    auth: { case: "oauth1", value: { signatureMethod: "PLAINTEXT", realm: 'a "b" \\ c' } },
  });
  expect(authorization(setting, at("GET", "https://api.example.com/", { nonce: "n/1" }))).toBe(
    'OAuth realm="a \\"b\\" \\\\ c", oauth_consumer_key="ck-1", oauth_token="tk-1", ' +
      'oauth_signature_method="PLAINTEXT", oauth_timestamp="1700000000", oauth_nonce="n%2F1", ' +
      'oauth_version="1.0", oauth_signature="c%2526s%26t%2520s"',
  );
});

it("does not sign the realm", () => {
  const draft = at("GET", "https://api.example.com/v1/items?a=2&a=1&z=");
  const setting = settingOf("", { auth: { case: "oauth1", value: { realm: "Photos" } } });
  expect(authorization(setting, draft)).toMatch(/^OAuth realm="Photos", /);
  expect(signatureIn(authorization(setting, draft))).toBe("fpK1SdDffT0YY8tVFIJhWRkp894=");
});

it("asks for the body only where it is signed", () => {
  expect(attachSigning(settingOf("")).needs).toBe("form");
  expect(attachSigning(settingOf("PLAINTEXT")).needs).toBe("nothing");
});

it("signs with the integration's RSA key", () => {
  const setting = settingOf("RSA-SHA1", { client: { id: "ck-1", secret: "", privateKey: rsaKey } });
  expect(signatureIn(authorization(setting, at("GET", "https://api.example.com/")))).toHaveLength(172);
});

it.each<[string, Setting]>([
  ["the integration has no consumer key", { ...settingOf(""), client: { id: "", secret: "s" } }],
  ["the integration has no consumer secret", { ...settingOf(""), client: { id: "ck", secret: "" } }],
  ["the integration's private key is missing", settingOf("RSA-SHA1")],
  [
    "the integration's private key must be unencrypted PEM",
    { ...settingOf("RSA-SHA1"), client: { ...client, privateKey: "no key" } },
  ],
  ["the token is missing", { ...settingOf(""), kind: { case: "oauth1", value: { oauthTokenSecret: "s" } } }],
  ["the provider's signature method MD5 is not supported", settingOf("MD5")],
])("says that %s", (message, setting) => {
  expect(refusalOf(setting)).toBe(message);
});
