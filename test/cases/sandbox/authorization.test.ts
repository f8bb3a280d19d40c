import { createHash, createPublicKey, createVerify, type JsonWebKey } from "node:crypto";
import { expect, it } from "vitest";
import {
  authorizePath,
  bearer,
  broughtBack,
  callback,
  challengeOf,
  codeFor,
  consentPage,
  newVerifier,
  started,
} from "./started.ts";

it("asks a user, and redirects with code, state and issuer", async () => {
  const sandbox = await started();
  const page = await consentPage(sandbox, await sandbox.get(authorizePath()));
  expect(page.users).toEqual(["ada@example.com", "bob@example.com", "grace@example.com"]);
  expect(page.scopes).toEqual(["openid", "email", "drive"]);
  const back = await page.answer("allow", { user: "bob@example.com", scopes: ["openid", "email"] });
  expect(back.status).toBe(303);
  expect(back.headers.get("location")).toMatch(/^http:\/\/127\.0\.0\.1:9\/callback\?/);
  const fields = broughtBack(back);
  expect(fields.get("state")).toBe("the-state");
  expect(fields.get("iss")).toBe(sandbox.origin);

  const code = fields.get("code") ?? "";
  const { status, headers, body } = await sandbox.token({
    grant_type: "authorization_code",
    code,
    redirect_uri: callback,
  });
  expect(status).toBe(200);
  expect(headers.get("cache-control")).toBe("no-store");
  expect(body).toMatchObject({ token_type: "Bearer", expires_in: 3600, scope: "openid email" });
  const user = await sandbox.get("/oauth2/userinfo", bearer(body.access_token));
  expect(await user.json()).toEqual({ sub: "100000000000000000002", email: "bob@example.com", email_verified: true });
});

it("shows a page without scripts that cannot be framed and links only back", async () => {
  const sandbox = await started();
  const hostile = "<script>alert(1)</script>\"'";
  const response = await sandbox.get(authorizePath({ scope: hostile }));
  const { text, headers } = await consentPage(sandbox, response);
  expect(text).not.toContain("<script");
  const policy = headers.get("content-security-policy") ?? "";
  expect(policy).toContain("default-src 'none'");
  const [, style = ""] = /<style>([\s\S]*?)<\/style>/.exec(text) ?? [];
  expect(policy).toContain(`style-src 'sha256-${createHash("sha256").update(style).digest("base64")}'`);
  expect(policy).toContain("frame-ancestors 'none'");
  expect(policy).toContain("form-action 'self' http://127.0.0.1:9");
  expect(headers.get("referrer-policy")).toBe("no-referrer");
  expect(headers.get("cache-control")).toBe("no-store");
});

it("takes a page's answer once", async () => {
  const sandbox = await started();
  const page = await consentPage(sandbox, await sandbox.get(authorizePath()));
  expect((await page.answer("allow")).status).toBe(303);
  expect((await page.answer("allow")).status).toBe(400);
});

it("redirects with access_denied when the user denies", async () => {
  const sandbox = await started();
  const page = await consentPage(sandbox, await sandbox.get(authorizePath()));
  const fields = broughtBack(await page.answer("deny"));
  expect(Object.fromEntries(fields)).toMatchObject({ error: "access_denied", state: "the-state", iss: sandbox.origin });
  expect(fields.has("code")).toBe(false);
});

it("decides by itself for the hinted user, if configured", async () => {
  const sandbox = await started({ behaviour: { consent: "allow", grantOnly: ["openid", "email"] } });
  const code = broughtBack(await sandbox.get(authorizePath({ login_hint: "grace@example.com" }))).get("code") ?? "";
  const { body } = await sandbox.token({ grant_type: "authorization_code", code, redirect_uri: callback });
  expect(body.scope).toBe("openid email");
  expect(sandbox.seen().grants).toMatchObject([{ user: "grace@example.com", scopes: ["openid", "email"] }]);
  sandbox.behave({ consent: "deny" });
  expect(broughtBack(await sandbox.get(authorizePath())).get("error")).toBe("access_denied");
});

it("omits iss, or sends another issuer, if configured", async () => {
  const sandbox = await started({ behaviour: { consent: "allow", iss: "missing" } });
  expect(broughtBack(await sandbox.get(authorizePath())).has("iss")).toBe(false);
  const document = await (await sandbox.get("/.well-known/oauth-authorization-server")).json();
  expect(document).toMatchObject({ authorization_response_iss_parameter_supported: false });
  sandbox.behave({ iss: "wrong" });
  expect(broughtBack(await sandbox.get(authorizePath())).get("iss")).toBe("https://another-issuer.example");
});

it.each([
  ["an unknown app", { client_id: "nobody" }],
  ["a foreign address", { redirect_uri: "https://evil.example/callback" }],
  ["an address that only begins like one here", { redirect_uri: "http://127.0.0.1.evil.example/" }],
  ["no address at all", { redirect_uri: "javascript:alert(1)" }],
  ["a fragment", { redirect_uri: `${callback}#x` }],
])("redirects no browser to %s", async (_what, more) => {
  const sandbox = await started({ behaviour: { consent: "allow" } });
  const response = await sandbox.get(authorizePath(more));
  expect(response.status).toBe(400);
  expect(response.headers.has("location")).toBe(false);
});

it("compares a registered address exactly, but for the port of a loopback address", async () => {
  const redirectUris = ["https://app.example/callback", "http://127.0.0.1/callback"];
  const sandbox = await started({
    behaviour: { consent: "allow" },
    clients: [{ id: "registered", secret: "s", redirectUris }],
  });
  const statusOf = async (redirect_uri: string) =>
    (await sandbox.get(authorizePath({ client_id: "registered", redirect_uri }))).status;
  expect(await statusOf("https://app.example/callback")).toBe(303);
  expect(await statusOf("http://127.0.0.1:4711/callback")).toBe(303);
  expect(await statusOf("https://app.example/callback/")).toBe(400);
  expect(await statusOf("https://app.example/callback?x=1")).toBe(400);
  expect(await statusOf("https://app.example:8443/callback")).toBe(400);
  expect(await statusOf("http://127.0.0.1:4711/other")).toBe(400);
  expect(await statusOf("http://127.0.0.1:4711/callback?x=1")).toBe(400);
  expect(await statusOf(callback.replace("127.0.0.1", "localhost"))).toBe(400);
});

it.each([
  [{ response_type: "token" }, "unsupported_response_type"],
  [{ code_challenge: "short", code_challenge_method: "S256" }, "invalid_request"],
  [{ code_challenge: challengeOf("x"), code_challenge_method: "plain" }, "invalid_request"],
])("redirects to the app with the mistake of a request: %o", async (more, error) => {
  const sandbox = await started({ behaviour: { consent: "allow" } });
  const fields = broughtBack(await sandbox.get(authorizePath(more)));
  expect(fields.get("error")).toBe(error);
  expect(fields.get("state")).toBe("the-state");
});

it("verifies PKCE by the vector of RFC 7636", async () => {
  const sandbox = await started();
  const code = await codeFor(sandbox, {
    code_challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
    code_challenge_method: "S256",
  });
  const exchange = { grant_type: "authorization_code", code, redirect_uri: callback };
  const code_verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
  expect((await sandbox.token({ ...exchange, code_verifier })).status).toBe(200);
});

it.each([
  ["a wrong verifier", true, { code_verifier: newVerifier() }],
  ["no verifier", true, {}],
  ["a short one", true, { code_verifier: "abc" }],
  ["a verifier without a challenge", false, { code_verifier: newVerifier() }],
])("issues nothing for %s", async (_what, challenged, more) => {
  const sandbox = await started();
  const challenge = { code_challenge: challengeOf(newVerifier()), code_challenge_method: "S256" };
  const code = await codeFor(sandbox, challenged ? challenge : {});
  const { status, body } = await sandbox.token({
    grant_type: "authorization_code",
    code,
    redirect_uri: callback,
    ...more,
  });
  expect([status, body.error]).toEqual([400, "invalid_grant"]);
});

it("requires or refuses PKCE as configured, and always requires it of public clients", async () => {
  const sandbox = await started({ behaviour: { consent: "allow", pkce: "required" } });
  const challenge = { code_challenge: challengeOf(newVerifier()), code_challenge_method: "S256" };
  expect(broughtBack(await sandbox.get(authorizePath())).get("error")).toBe("invalid_request");
  sandbox.behave({ pkce: "refused" });
  expect(broughtBack(await sandbox.get(authorizePath(challenge))).get("error")).toBe("invalid_request");
  sandbox.behave({ pkce: "optional" });
  expect(broughtBack(await sandbox.get(authorizePath())).has("code")).toBe(true);
  const open = { client_id: "sandbox-public" };
  expect(broughtBack(await sandbox.get(authorizePath(open))).get("error")).toBe("invalid_request");
  expect(broughtBack(await sandbox.get(authorizePath({ ...open, ...challenge }))).has("code")).toBe(true);
});

it("revokes the grant of a code that is used twice", async () => {
  const sandbox = await started();
  const code = await codeFor(sandbox);
  const exchange = { grant_type: "authorization_code", code, redirect_uri: callback };
  const { body } = await sandbox.token(exchange);
  expect((await sandbox.get("/drive/v3/files", bearer(body.access_token))).status).toBe(200);
  expect(await sandbox.token(exchange)).toMatchObject({ status: 400, body: { error: "invalid_grant" } });
  expect((await sandbox.get("/drive/v3/files", bearer(body.access_token))).status).toBe(401);
  expect(sandbox.seen().tallies).toMatchObject({ codesExchanged: 1, codesReused: 1 });
});

it("issues nothing for a code of another app, another address or after its expiry", async () => {
  let time = Date.now();
  const sandbox = await started({ now: () => time, clients: [{ id: "other", secret: "s" }] });
  const exchange = async (more: Readonly<Record<string, string>>, headers?: Readonly<Record<string, string>>) =>
    (await sandbox.token({ grant_type: "authorization_code", code: await codeFor(sandbox), ...more }, headers)).body
      .error;
  expect(await exchange({ redirect_uri: callback, client_id: "other", client_secret: "s" }, {})).toBe("invalid_grant");
  expect(await exchange({ redirect_uri: `${callback}x` })).toBe("invalid_grant");
  expect(await exchange({})).toBe("invalid_grant");
  const code = await codeFor(sandbox);
  time += 61_000;
  expect((await sandbox.token({ grant_type: "authorization_code", code, redirect_uri: callback })).body.error).toBe(
    "invalid_grant",
  );
});

it("signs the user's identity, with the nonce of the request", async () => {
  const sandbox = await started();
  const code = await codeFor(sandbox, { nonce: "n-1", scope: "openid email profile" });
  const { body } = await sandbox.token({ grant_type: "authorization_code", code, redirect_uri: callback });
  const [head = "", claims = "", signature = ""] = String(body.id_token).split(".");
  const { jwks_uri } = (await (await sandbox.get("/.well-known/openid-configuration")).json()) as { jwks_uri: string };
  const { keys } = (await (await fetch(jwks_uri)).json()) as { keys: JsonWebKey[] };
  const [jwk] = keys;
  const key = createPublicKey({ key: jwk ?? {}, format: "jwk" });
  const verified = createVerify("RSA-SHA256").update(`${head}.${claims}`).verify(key, signature, "base64url");
  expect(verified).toBe(true);
  expect(JSON.parse(Buffer.from(claims, "base64url").toString())).toMatchObject({
    iss: sandbox.origin,
    aud: "sandbox",
    nonce: "n-1",
    sub: "100000000000000000001",
    email: "ada@example.com",
    name: "Ada Lovelace",
  });
});

it("names another issuer in its metadata, if configured", async () => {
  const sandbox = await started();
  const issuer = async () =>
    ((await (await sandbox.get("/.well-known/oauth-authorization-server")).json()) as { issuer: string }).issuer;
  expect(await issuer()).toBe(sandbox.origin);
  sandbox.behave({ metadataIssuer: "wrong" });
  expect(await issuer()).toBe("https://another-issuer.example");
});
