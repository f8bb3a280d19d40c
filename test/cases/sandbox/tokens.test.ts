import { expect, it } from "vitest";
import { basic, bearer, callback, codeFor, type Started, started } from "./started.ts";

const refresh = (sandbox: Started, refresh_token: string, more: Readonly<Record<string, string>> = {}) =>
  sandbox.token({ grant_type: "refresh_token", refresh_token, ...more });
const filesWith = async (sandbox: Started, token: string) =>
  (await sandbox.get("/drive/v3/files?pageSize=1", bearer(token))).status;

it("rotates refresh tokens, and revokes the family when a spent one comes again", async () => {
  const sandbox = await started();
  const first = sandbox.grant();
  const second = await refresh(sandbox, first.refresh_token);
  expect(second.status).toBe(200);
  expect(second.body.refresh_token).not.toBe(first.refresh_token);
  expect(await filesWith(sandbox, second.body.access_token)).toBe(200);

  expect(await refresh(sandbox, first.refresh_token)).toMatchObject({ status: 400, body: { error: "invalid_grant" } });
  expect(await filesWith(sandbox, first.access_token)).toBe(401);
  expect(await filesWith(sandbox, second.body.access_token)).toBe(401);
  expect(await refresh(sandbox, second.body.refresh_token)).toMatchObject({ body: { error: "invalid_grant" } });
  expect(sandbox.seen().tallies).toMatchObject({ refreshes: 1, supersededReused: 1, familiesRevoked: 1 });
  expect(sandbox.seen().grants).toMatchObject([{ id: first.grant, refreshes: 1, reuses: 1, revoked: true }]);
});

it("takes the token just before for as long as its grace lasts", async () => {
  let time = Date.now();
  const sandbox = await started({ now: () => time, behaviour: { graceS: 10 } });
  const { refresh_token: first } = sandbox.grant();
  await refresh(sandbox, first);
  time += 9_999;
  const again = await refresh(sandbox, first);
  expect(again.status).toBe(200);
  expect((await refresh(sandbox, again.body.refresh_token)).status).toBe(200);
  expect(sandbox.seen().tallies).toMatchObject({ supersededInGrace: 1, supersededReused: 0, familiesRevoked: 0 });
});

it("takes it no longer when the grace is over, nor once the one after it was used", async () => {
  let time = Date.now();
  const sandbox = await started({ now: () => time, behaviour: { graceS: 10 } });
  const late = sandbox.grant().refresh_token;
  await refresh(sandbox, late);
  time += 10_000;
  expect((await refresh(sandbox, late)).body.error).toBe("invalid_grant");

  const followed = sandbox.grant().refresh_token;
  const { body } = await refresh(sandbox, followed);
  await refresh(sandbox, body.refresh_token);
  expect((await refresh(sandbox, followed)).body.error).toBe("invalid_grant");
  expect(sandbox.seen().tallies.familiesRevoked).toBe(2);
});

it("keeps one refresh token when rotation is off", async () => {
  const sandbox = await started({ behaviour: { rotation: false } });
  const { refresh_token } = sandbox.grant();
  for (let i = 0; i < 3; i += 1) {
    const { status, body } = await refresh(sandbox, refresh_token);
    expect([status, body.refresh_token]).toEqual([200, undefined]);
  }
  expect(sandbox.seen().grants).toMatchObject([{ refreshes: 3, reuses: 0 }]);
});

it("issues nothing for a refresh token of another app, and does not invalidate it", async () => {
  const sandbox = await started({ clients: [{ id: "other", secret: "s" }] });
  const { refresh_token } = sandbox.grant();
  const renewal = { grant_type: "refresh_token", refresh_token };
  const stolen = await sandbox.token(renewal, { authorization: basic("other", "s") });
  expect([stolen.status, stolen.body.error]).toEqual([400, "invalid_grant"]);
  expect((await sandbox.token(renewal)).status).toBe(200);
});

it("expires access tokens and refresh tokens", async () => {
  const begun = Date.now();
  let time = begun;
  const sandbox = await started({
    now: () => time,
    behaviour: { accessTokenLifetimeS: 60, refreshTokenLifetimeS: 604_800 },
  });
  const { access_token, refresh_token, expires_in } = sandbox.grant();
  expect(expires_in).toBe(60);
  time += 59_999;
  expect(await filesWith(sandbox, access_token)).toBe(200);
  time += 1;
  const refused = await sandbox.get("/drive/v3/files", bearer(access_token));
  expect(refused.status).toBe(401);
  expect(refused.headers.get("www-authenticate")).toContain('error="invalid_token"');
  const { body } = await refresh(sandbox, refresh_token);
  time = begun + 604_800_000;
  // A refresh does not prolong the consent.
  expect((await refresh(sandbox, body.refresh_token)).body).toMatchObject({
    error: "invalid_grant",
    error_description: "Token has been expired or revoked.",
  });
});

it("drops the oldest refresh token above the limit without an error", async () => {
  const sandbox = await started({ behaviour: { maxRefreshTokens: 2 } });
  const [first, second, third] = [sandbox.grant(), sandbox.grant(), sandbox.grant()];
  sandbox.grant({ user: "bob@example.com" });
  expect(await filesWith(sandbox, first.access_token)).toBe(200);
  expect((await refresh(sandbox, first.refresh_token)).body.error).toBe("invalid_grant");
  expect((await refresh(sandbox, second.refresh_token)).status).toBe(200);
  expect((await refresh(sandbox, third.refresh_token)).status).toBe(200);
  expect(sandbox.seen().tallies).toMatchObject({ tokensOverflowed: 1, familiesRevoked: 0 });
});

it.each([
  ["asked", {}, false],
  ["asked", { access_type: "offline" }, true],
  ["asked", { scope: "drive offline_access" }, true],
  ["always", {}, true],
  ["never", { access_type: "offline" }, false],
] as const)("issues a refresh token with a code: %s, %o", async (refreshTokens, more, brings) => {
  const sandbox = await started({ behaviour: { refreshTokens } });
  const code = await codeFor(sandbox, more);
  const { body } = await sandbox.token({ grant_type: "authorization_code", code, redirect_uri: callback });
  expect(body.refresh_token !== undefined).toBe(brings);
});

it("narrows a refreshed token to the requested scopes, and never widens it", async () => {
  const sandbox = await started({ behaviour: { rotation: false } });
  const { refresh_token } = sandbox.grant({ scopes: ["drive", "calendar"] });
  const narrow = await refresh(sandbox, refresh_token, { scope: "calendar" });
  expect(narrow.body.scope).toBe("calendar");
  const refused = await sandbox.get("/drive/v3/files", bearer(narrow.body.access_token));
  expect(refused.status).toBe(403);
  expect(refused.headers.get("www-authenticate")).toContain('error="insufficient_scope"');
  expect((await refresh(sandbox, refresh_token, { scope: "calendar gmail.send" })).body.error).toBe("invalid_scope");
});

it("authenticates a client by Basic, form-encoded as in RFC 6749, or by its form, but not by both or a wrong secret", async () => {
  const sandbox = await started({
    clients: [
      { id: "odd:id", secret: "s&c =%é" },
      { id: "strict", secret: "s", authMethod: "client_secret_basic" },
    ],
  });
  const form = { grant_type: "client_credentials" };
  const ask = async (fields: Readonly<Record<string, string>>, headers: Readonly<Record<string, string>>) => {
    const { status, body } = await sandbox.token({ ...form, ...fields }, headers);
    return [status, body.error];
  };
  const encoded = basic(encodeURIComponent("odd:id"), encodeURIComponent("s&c =%é").replaceAll("%20", "+"));
  expect(await ask({}, { authorization: encoded })).toEqual([200, undefined]);
  expect(await ask({ client_id: "odd:id", client_secret: "s&c =%é" }, {})).toEqual([200, undefined]);
  expect(await ask({}, { authorization: basic("strict", "s") })).toEqual([200, undefined]);
  expect(await ask({ client_id: "strict", client_secret: "s" }, {})).toEqual([401, "invalid_client"]);
  expect(await ask({ client_secret: "s" }, { authorization: basic("strict", "s") })).toEqual([400, "invalid_request"]);
  expect(await ask({}, { authorization: basic("strict", "wrong") })).toEqual([401, "invalid_client"]);
  expect(await ask({}, { authorization: basic("nobody", "s") })).toEqual([401, "invalid_client"]);
  expect(await ask({ client_id: "strict" }, {})).toEqual([401, "invalid_client"]);
  expect(await ask({}, {})).toEqual([401, "invalid_client"]);
  const wrong = await sandbox.token(form, { authorization: basic("strict", "wrong") });
  expect(wrong.headers.get("www-authenticate")).toContain("Basic");
});

it("takes client credentials for an app that has a secret, and a new secret at once", async () => {
  const sandbox = await started();
  const { body } = await sandbox.token({ grant_type: "client_credentials", scope: "drive" });
  expect(body).toMatchObject({ token_type: "Bearer", scope: "drive" });
  expect(body.refresh_token).toBeUndefined();
  expect(await filesWith(sandbox, body.access_token)).toBe(200);
  const open = { grant_type: "client_credentials", client_id: "sandbox-public" };
  expect((await sandbox.token(open, {})).body.error).toBe("unauthorized_client");
  sandbox.register({ id: "sandbox", secret: "changed" });
  expect((await sandbox.token({ grant_type: "client_credentials" })).status).toBe(401);
  const changed = { authorization: basic("sandbox", "changed") };
  expect((await sandbox.token({ grant_type: "client_credentials" }, changed)).status).toBe(200);
});

it("takes a token request in JSON, too", async () => {
  const sandbox = await started();
  const response = await sandbox.send("POST", "/oauth2/token", {
    body: { grant_type: "client_credentials", client_id: "sandbox", client_secret: "sandbox-secret" },
  });
  expect(response.status).toBe(200);
});

it("exchanges an access token for one with fewer scopes", async () => {
  const sandbox = await started();
  const { access_token: subject_token } = sandbox.grant({ scopes: ["drive", "calendar"] });
  const exchange = (more: Readonly<Record<string, string>>) =>
    sandbox.token({
      grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
      subject_token,
      subject_token_type: "urn:ietf:params:oauth:token-type:access_token",
      ...more,
    });
  const { body } = await exchange({ scope: "drive" });
  expect(body).toMatchObject({ scope: "drive", issued_token_type: "urn:ietf:params:oauth:token-type:access_token" });
  expect(body.refresh_token).toBeUndefined();
  expect(await filesWith(sandbox, body.access_token)).toBe(200);
  expect((await exchange({ scope: "spreadsheets" })).body.error).toBe("invalid_scope");
  expect((await exchange({ subject_token: "x" })).body.error).toBe("invalid_grant");
});

it("revokes a token for the app whose it is", async () => {
  const sandbox = await started({ clients: [{ id: "other", secret: "s" }] });
  const { access_token, refresh_token } = sandbox.grant();
  const revoke = (token: string, authorization: string) =>
    sandbox.send("POST", "/oauth2/revoke", { headers: { authorization }, body: new URLSearchParams({ token }) });
  expect((await revoke(refresh_token, basic("other", "s"))).status).toBe(200);
  expect(await filesWith(sandbox, access_token)).toBe(200);
  expect((await revoke(refresh_token, basic("sandbox", "sandbox-secret"))).status).toBe(200);
  expect(await filesWith(sandbox, access_token)).toBe(401);
  expect((await revoke("unknown", basic("sandbox", "sandbox-secret"))).status).toBe(200);
  expect((await revoke("unknown", basic("sandbox", "wrong"))).status).toBe(401);
});

it("revokes grants like a user or an administrator", async () => {
  const sandbox = await started();
  const [ada, bob, grace] = ["ada", "bob", "grace"].map((name) => sandbox.grant({ user: `${name}@example.com` }));
  if (ada === undefined || bob === undefined || grace === undefined) throw new Error("three grants");
  expect(sandbox.revoke({ user: "ada@example.com" })).toBe(1);
  expect(sandbox.revoke({ grant: bob.grant })).toBe(1);
  expect(sandbox.revoke({ token: grace.access_token })).toBe(1);
  expect(await Promise.all([ada, bob, grace].map((one) => filesWith(sandbox, one.access_token)))).toEqual([
    401, 401, 401,
  ]);
  expect((await refresh(sandbox, ada.refresh_token)).body.error).toBe("invalid_grant");
  // Only one of Grace's tokens was revoked.
  expect((await refresh(sandbox, grace.refresh_token)).status).toBe(200);
});

it("refuses an unknown grant type, and a repeated parameter", async () => {
  const sandbox = await started();
  expect((await sandbox.token({ grant_type: "password" })).body.error).toBe("unsupported_grant_type");
  expect((await sandbox.token({})).body.error).toBe("invalid_request");
  const response = await sandbox.send("POST", "/oauth2/token", {
    headers: { authorization: basic("sandbox", "sandbox-secret"), "content-type": "application/x-www-form-urlencoded" },
    body: "grant_type=client_credentials&grant_type=refresh_token",
  });
  expect(await response.json()).toMatchObject({ error: "invalid_request" });
});
