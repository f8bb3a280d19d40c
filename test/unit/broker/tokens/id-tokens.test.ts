import { createHmac, createSign, generateKeyPairSync, type JsonWebKey, type KeyObject } from "node:crypto";
import { expect, it } from "vitest";
import type { TokenGrant } from "../../../../src/broker/tokens/token-endpoint.ts";
import { asking, expectFailure, type OAuth2, oauth2, providerClient, secure, serve } from "../asking.ts";

const pairOf = () => generateKeyPairSync("rsa", { modulusLength: 2_048 });
const [theirs, next, stranger] = [pairOf(), pairOf(), pairOf()];
const jwk = (key: KeyObject, kid: string): JsonWebKey => ({ ...key.export({ format: "jwk" }), kid, use: "sig" });

const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
const parts = (head: object, claims: object) => `${encoded(head)}.${encoded(claims)}`;

function signed(claims: object, { key = theirs.privateKey, kid = "one" } = {}): string {
  const content = parts({ alg: "RS256", kid }, claims);
  return `${content}.${createSign("RSA-SHA256").update(content).sign(key, "base64url")}`;
}

interface Given {
  readonly rules?: OAuth2;
  /** Publishes metadata with its signing algorithms, also one that uses the client's secret. */
  readonly describesItself?: boolean;
  readonly clientSecret?: string;
  readonly now?: () => number;
}

/** A provider whose token responses are fixed, and whose keys can be replaced. */
async function provider({
  rules = {},
  describesItself = false,
  clientSecret = "sandbox-secret",
  now = Date.now,
}: Given = {}) {
  const said = {
    idToken: "" as unknown,
    keys: [jwk(theirs.publicKey, "one")] as readonly unknown[],
    keysStatus: 200,
  };
  const asked: string[] = [];
  const { origin, port } = await serve((request, response) => {
    asked.push(request.url ?? "");
    response.setHeader("content-type", "application/json");
    if (request.url === "/metadata") {
      const supported = { id_token_signing_alg_values_supported: ["RS256", "HS256"] };
      response.end(JSON.stringify({ issuer: "https://issuer.example", ...supported }));
      return;
    }
    if (request.url === "/jwks") {
      response.statusCode = said.keysStatus;
      response.end(JSON.stringify({ keys: said.keys }));
      return;
    }
    response.end(
      JSON.stringify({ access_token: "at", refresh_token: "rt", token_type: "bearer", id_token: said.idToken }),
    );
  });
  const { tokens, logged } = providerClient({ allow: [`http://127.0.0.1:${port}`], now });
  const at = secure(origin);
  const metadata = describesItself ? { metadataUrl: `${at}/metadata` } : {};
  const described = { tokenUrl: `${at}/token`, issuer: "https://issuer.example", jwksUrl: `${at}/jwks`, ...metadata };
  const who = asking({
    provider: oauth2({ ...described, ...rules }),
    clientId: "app",
    clientSecret,
  });
  const claims = (more: object = {}) => {
    const iat = Math.floor(now() / 1_000);
    return { iss: "https://issuer.example", aud: "app", sub: "ada", iat, exp: iat + 3_600, nonce: "n", ...more };
  };
  const code: TokenGrant = {
    type: "authorization_code",
    code: "c",
    redirectUri: "u",
    codeVerifier: undefined,
    nonce: "n",
  };
  return {
    said,
    logged,
    claims,
    keysAsked: () => asked.filter((path) => path === "/jwks").length,
    authorize: (more: Partial<typeof code> = {}) => tokens.ask({ ...who, grant: { ...code, ...more } }),
    byDevice: () => tokens.ask({ ...who, grant: { type: "device_code", deviceCode: "d" } }),
    renew: () => tokens.ask({ ...who, grant: { type: "refresh_token", refreshToken: "rt" } }),
  };
}

const minute = 60;

it("believes an id_token that is the provider's, the client's, of this time and of this authorization", async () => {
  const { said, claims, authorize, keysAsked } = await provider();
  for (const more of [{}, { aud: ["app"] }, { aud: ["app", "other"], azp: "app" }]) {
    said.idToken = signed(claims(more));
    expect((await authorize()).idToken).toBe(said.idToken);
  }
  expect(keysAsked()).toBe(1);
});

it.each<[string, object, string]>([
  ["of another issuer", { iss: "https://issuer.example/" }, "id_token_issuer"],
  ["for another client", { aud: "other" }, "id_token_audience"],
  ["for others too, and not given to this one", { aud: ["app", "other"] }, "id_token_audience"],
  ["of another authorization", { nonce: "m" }, "id_token_nonce"],
  ["of no authorization", { nonce: undefined }, "id_token_unreadable"],
  ["that has run out", { exp: Math.floor(Date.now() / 1_000) - 2 * minute }, "id_token_expired"],
  ["that is not good yet", { nbf: Math.floor(Date.now() / 1_000) + 2 * minute }, "id_token_expired"],
  ["that names nobody", { sub: undefined }, "id_token_unreadable"],
])("refuses an authorization with an id_token %s", async (_, more, code) => {
  const { said, claims, authorize } = await provider();
  said.idToken = signed(claims(more));
  await expectFailure(authorize(), "unusable", code);
});

it("applies the same rules to a device's, except for the nonce, which was not sent", async () => {
  const { said, claims, byDevice } = await provider();
  said.idToken = signed(claims({ nonce: undefined }));
  expect((await byDevice()).idToken).toBe(said.idToken);
  for (const [wrong, code] of [
    [signed(claims()), "id_token_nonce"],
    [signed(claims({ nonce: undefined }), { key: stranger.privateKey }), "id_token_signature"],
  ]) {
    said.idToken = wrong;
    await expectFailure(byDevice(), "unusable", code);
  }
});

it("refuses an authorization with an id_token that no key of the provider has signed", async () => {
  const { said, claims, authorize } = await provider();
  const good = signed(claims());
  const [head = "", , signature = ""] = good.split(".");
  const none = parts({ alg: "none" }, claims());
  const bySecret = parts({ alg: "HS256" }, claims());
  const publicPem = theirs.publicKey.export({ type: "spki", format: "pem" });
  const hmac = (key: string | Buffer) => createHmac("sha256", key).update(bySecret).digest("base64url");
  for (const [text, code] of [
    [`${head}.${encoded(claims({ sub: "eve" }))}.${signature}`, "id_token_signature"],
    [signed(claims(), { key: stranger.privateKey }), "id_token_signature"],
    [signed(claims(), { key: stranger.privateKey, kid: "two" }), "id_token_key"],
    [`${none}.`, "id_token_unreadable"],
    // The public key misused as a shared one; and the client's secret, although the provider does not sign with it.
    [`${bySecret}.${hmac(publicPem)}`, "id_token_unreadable"],
    [`${bySecret}.${hmac("sandbox-secret")}`, "id_token_unreadable"],
    ["no token", "id_token_unreadable"],
    [{ claims: claims() }, "id_token_unreadable"],
  ] as const) {
    said.idToken = text;
    await expectFailure(authorize(), "unusable", code);
  }
});

it("verifies an ID token with the client's secret if the provider signs so, and with no other", async () => {
  const { said, claims, authorize } = await provider({ describesItself: true });
  const content = parts({ alg: "HS256" }, claims());
  const hmac = (key: string) => createHmac("sha256", key).update(content).digest("base64url");
  said.idToken = `${content}.${hmac("sandbox-secret")}`;
  expect((await authorize()).idToken).toBe(said.idToken);
  const publicPem = theirs.publicKey.export({ type: "spki", format: "pem" }).toString();
  for (const key of ["another", "", publicPem]) {
    said.idToken = `${content}.${hmac(key)}`;
    await expectFailure(authorize(), "unusable", "id_token_signature");
  }
  // A client without a secret: everyone would know the key.
  const open = await provider({ describesItself: true, clientSecret: "" });
  open.said.idToken = `${content}.${hmac("")}`;
  await expectFailure(open.authorize(), "unusable", "id_token_signature");
});

it("accepts an unverified ID token without known keys, and a response without one", async () => {
  const unsaid = await provider({ rules: { jwksUrl: "" } });
  unsaid.said.idToken = "whatever";
  expect([(await unsaid.authorize()).raw["id_token"], (await unsaid.renew()).raw["id_token"]]).toEqual([
    "whatever",
    "whatever",
  ]);
  expect(unsaid.keysAsked()).toBe(0);
  // Metadata without keys do not tell the algorithm either.
  const keyless = await provider({ describesItself: true, rules: { jwksUrl: "" } });
  keyless.said.idToken = "whatever";
  expect([(await keyless.authorize()).raw["id_token"], (await keyless.renew()).raw["id_token"]]).toEqual([
    "whatever",
    "whatever",
  ]);
  const silent = await provider();
  for (const nothing of [undefined, null, ""]) {
    silent.said.idToken = nothing;
    expect((await silent.authorize()).accessToken).toBe("at");
  }
  expect(silent.keysAsked()).toBe(0);
});

it("accepts a new key of the provider, and requests keys once a minute for a made-up one", async () => {
  let time = Date.now();
  const { said, claims, authorize, keysAsked } = await provider({ now: () => time });
  said.idToken = signed(claims());
  await authorize();
  said.keys = [jwk(theirs.publicKey, "one"), jwk(next.publicKey, "two")];
  said.idToken = signed(claims(), { key: next.privateKey, kid: "two" });
  // So soon after the last request, new keys are not fetched.
  await expectFailure(authorize(), "unusable", "id_token_key");
  time += 61_000;
  expect((await authorize()).idToken).toBe(said.idToken);
  expect(keysAsked()).toBe(2);
});

it("stores nothing while the provider's keys are unavailable, and reports it", async () => {
  const { said, claims, authorize, logged } = await provider();
  said.idToken = signed(claims());
  for (const status of [500, 404]) {
    said.keysStatus = status;
    await expectFailure(authorize(), "unusable", "id_token_unverified");
    expect(logged.some((line) => line.includes(`keys_${status}`))).toBe(true);
  }
  said.keysStatus = 200;
  said.keys = ["no key"];
  await expectFailure(authorize(), "unusable", "id_token_key");
});

it("keeps the tokens of a refresh, and drops an invalid ID token", async () => {
  const { said, claims, renew, logged } = await provider();
  // Section 12.2 of OpenID Connect: the token may repeat the first nonce, or have none.
  for (const more of [{}, { nonce: undefined }]) {
    said.idToken = signed(claims(more));
    expect((await renew()).raw["id_token"]).toBe(said.idToken);
  }
  for (const wrong of [
    signed(claims({ iss: "https://other.example" })),
    signed(claims(), { key: stranger.privateKey }),
  ]) {
    said.idToken = wrong;
    const got = await renew();
    expect(got).toMatchObject({ accessToken: "at", refreshToken: "rt", idToken: undefined });
    expect(got.raw).toEqual({ access_token: "at", refresh_token: "rt", token_type: "bearer" });
  }
  const left = logged.filter((line) => line.includes("refresh dropped")).map((line) => JSON.parse(line).code);
  expect(left).toEqual(["id_token_issuer", "id_token_signature"]);
});

it("refreshes although the metadata with the key address are unavailable", async () => {
  const elsewhere = { jwksUrl: "", metadataUrl: "https://127.0.0.1:9/metadata" };
  const { said, claims, renew, authorize } = await provider({ rules: elsewhere });
  said.idToken = signed(claims());
  const got = await renew();
  expect([got.accessToken, got.raw["id_token"]]).toEqual(["at", undefined]);
  await expectFailure(authorize(), "unusable", "id_token_unverified");
});

it("refreshes although the keys are unavailable, and does not request them each time", async () => {
  const { said, claims, renew, keysAsked } = await provider();
  said.keysStatus = 503;
  said.idToken = signed(claims());
  for (let i = 0; i < 3; i += 1) {
    const got = await renew();
    expect([got.accessToken, got.raw["id_token"]]).toEqual(["at", undefined]);
  }
  expect(keysAsked()).toBe(1);
});

it.each<[string, object]>([
  ["lacks half of itself", { e: undefined }],
  ["is no public one", { d: "AQAB" }],
  ["says what it may do in one word", { key_ops: true }],
])("keeps what a renewal brings, and refuses an authorization, when the provider's key %s", async (_, wrong) => {
  const { said, claims, authorize, renew, logged } = await provider();
  said.keys = [{ ...jwk(theirs.publicKey, "one"), ...wrong }];
  said.idToken = signed(claims());
  await expectFailure(authorize(), "unusable", "id_token_key");
  const renewed = await renew();
  expect([renewed.accessToken, renewed.refreshToken, renewed.idToken]).toEqual(["at", "rt", undefined]);
  expect(logged.some((line) => line.includes("id_token of a refresh dropped"))).toBe(true);
});
