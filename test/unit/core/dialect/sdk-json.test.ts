import { generateKeyPairSync } from "node:crypto";
import { beforeAll, describe, expect, it } from "vitest";
import { newDpopKey } from "../../../../src/auth/oauth2/dpop-key.ts";
import { sidecarOfFile } from "../../../support/sidecar/door.ts";
import { canary, everyKind, integrationOf, setUpEveryKind } from "../../../support/sidecar/every-kind.ts";

const running = sidecarOfFile();
beforeAll(() => setUpEveryKind(running()));

const post = (body: unknown) => running().rest("POST", "/connections", { body });
const get = async (key: string, query = "") =>
  (await running().rest("GET", `/connections/c?provider_config_key=${key}${query}`)).body.credentials;

/** Whether a text appears anywhere in a value. */
const holds = (value: unknown, text: string) => JSON.stringify(value).includes(text);

describe.each(everyKind.map((kind) => [kind.type, kind] as const))("%s", (type, kind) => {
  const provider_config_key = integrationOf(kind);
  const added = kind.added ?? {};

  it("comes out as it went in, with everything it can hold", async () => {
    const credentials = { type, ...kind.whole(canary) };
    const { status, body } = await post({ provider_config_key, connection_id: "c", credentials });
    expect({ status, credentials: body.credentials }).toEqual({
      status: 201,
      credentials: { ...added, ...credentials },
    });
    const shown = await get(provider_config_key, "&refresh_token=true");
    expect(shown).toEqual({ ...added, ...credentials });

    // The shown credentials are accepted as input.
    expect((await post({ provider_config_key, connection_id: "c", credentials: shown })).status).toBe(201);
    expect(await get(provider_config_key, "&refresh_token=true")).toEqual(shown);
  });

  it("comes out as it went in, with no more than it must hold", async () => {
    const credentials = { type, ...kind.least };
    const { body } = await post({ provider_config_key, connection_id: "c", credentials });
    expect(body.credentials).toEqual({ ...added, ...credentials });
    const shown = await running().rest("GET", `/connections/c?provider_config_key=${provider_config_key}`);
    const fault = shown.headers.get("latchkey-error");
    if (kind.isAskedFor === true) expect([shown.status, fault]).toEqual([503, "refresh_unavailable"]);
    else expect(shown.body.credentials).toEqual({ ...added, ...credentials });
  });

  it("is shown only on request", async () => {
    await post({ provider_config_key, connection_id: "c", credentials: { type, ...kind.whole(canary) } });
    expect(await get(provider_config_key, "&credentials=false")).toEqual({});
    const { body } = await running().rest("GET", `/connections?integrationId=${provider_config_key}`);
    expect(body.connections[0]).not.toHaveProperty("credentials");
    expect(holds(body, "canary")).toBe(false);
  });
});

const hidden = canary("refresh");
const raw = {
  refresh_token: hidden,
  scope: "all",
  authed_user: { refresh_token: hidden, id: 1, refreshToken: hidden, "refresh-token": hidden, REFRESH_TOKEN: hidden },
  list: [{ refresh_token: hidden, kept: true }, [{ RefreshToken: hidden }]],
  refresh_token_expires_in: 3_600,
};
const visible = {
  scope: "all",
  authed_user: { id: 1 },
  list: [{ kept: true }, [{}]],
  refresh_token_expires_in: 3_600,
};

it.each([
  ["OAUTH2", { access_token: "t", refresh_token: hidden, raw }],
  ["OAUTH2_CC", { client_id: "i", client_secret: "s", token: "t", raw }],
  ["OAUTH1", { oauth_token: "t", oauth_token_secret: "s", raw }],
  ["APP", { installation_id: "1", access_token: "t", raw }],
  ["TWO_STEP", { token: "t", refresh_token: hidden, raw }],
])("omits the refresh token of %s at any depth unless requested", async (type, credentials) => {
  const provider_config_key = integrationOf({ type });
  await post({ provider_config_key, connection_id: "c", credentials: { type, ...credentials } });
  const shown = await get(provider_config_key);
  expect(holds(shown, hidden)).toBe(false);
  expect(shown.raw).toEqual(visible);
  expect(shown).not.toHaveProperty("refresh_token");
  expect(holds(await get(provider_config_key, "&refresh_token=false"), hidden)).toBe(false);
  expect((await get(provider_config_key, "&refresh_token=true")).raw).toEqual(raw);
});

it.each(["JWT", "TWO_STEP"])("leaves the refresh token out of the fields of %s", async (type) => {
  const provider_config_key = integrationOf({ type });
  await post({
    provider_config_key,
    connection_id: "c",
    credentials: { type, token: "t", login: { ...raw, user: "u" } },
  });
  const shown = await get(provider_config_key);
  expect(holds(shown, hidden)).toBe(false);
  expect(shown.login).toEqual({ ...visible, user: "u" });
});

it("leaves the refresh token out where the provider calls it something else", async () => {
  const elsewhere = { rt: hidden, all: ["x", hidden], token: "t" };
  const credentials = { type: "OAUTH2", access_token: "t", refresh_token: hidden, raw: elsewhere };
  const provider_config_key = integrationOf(credentials);
  await post({ provider_config_key, connection_id: "c", credentials });
  expect((await get(provider_config_key)).raw).toEqual({ all: ["x"], token: "t" });
});

it("shows empty scopes if none were requested", async () => {
  const provider_config_key = integrationOf({ type: "API_KEY" });
  const credentials = { type: "API_KEY", apiKey: "k" };
  const { body } = await post({ provider_config_key, connection_id: "unscoped", credentials });
  expect(body).toMatchObject({ granted_scopes: [], missing_scopes: [] });
  const list = (await running().rest("GET", "/connections?connectionId=unscoped")).body.connections;
  expect(list).toMatchObject([{ missing_scopes: [] }]);
});

const bound = [
  ["OAUTH2", { access_token: "t" }],
  ["OAUTH2_CC", { client_id: "i", client_secret: "s", token: "t" }],
] as const;

it.each(bound)("takes and shows the key that a token of %s is bound to", async (type, rest) => {
  const provider_config_key = integrationOf({ type });
  const dpop_key = newDpopKey();
  // Copied out of JSON, its line breaks may be two characters each.
  for (const key of [dpop_key, dpop_key.replaceAll("\n", "\\n")]) {
    const credentials = { type, ...rest, raw: {}, dpop_key: key };
    const { status, body } = await post({ provider_config_key, connection_id: "c", credentials });
    expect({ status, credentials: body.credentials }).toEqual({ status: 201, credentials });
    expect(await get(provider_config_key, "&refresh_token=true")).toEqual(credentials);
    expect(await get(provider_config_key)).toEqual({ type, ...rest, raw: {} });
  }
  // A second import replaces everything.
  const { body } = await post({ provider_config_key, connection_id: "c", credentials: { type, ...rest } });
  expect(body.credentials).not.toHaveProperty("dpop_key");
});

const pkcs8 = { type: "pkcs8", format: "pem" } as const;
const p256 = () => generateKeyPairSync("ec", { namedCurve: "P-256" });

it.each<[string, string]>([
  ["no PEM", "hidden-nonsense"],
  ["of another curve", generateKeyPairSync("ec", { namedCurve: "P-384" }).privateKey.export(pkcs8).toString()],
  ["of RSA", generateKeyPairSync("rsa", { modulusLength: 2_048 }).privateKey.export(pkcs8).toString()],
  [
    "encrypted",
    p256()
      .privateKey.export({ ...pkcs8, cipher: "aes-256-cbc", passphrase: "x" })
      .toString(),
  ],
  ["half of one", p256().publicKey.export({ type: "spki", format: "pem" }).toString()],
  ["a JWK", JSON.stringify(p256().privateKey.export({ format: "jwk" }))],
])("refuses a key that a token is said to be bound to, and that is %s", async (_, dpop_key) => {
  for (const [type, rest] of bound) {
    const provider_config_key = integrationOf({ type });
    const credentials = { type, ...rest, dpop_key };
    const { status, body } = await post({ provider_config_key, connection_id: "refused", credentials });
    expect([status, body.error.code]).toEqual([400, "invalid_body"]);
    expect(body.error.errors).toEqual([
      { code: "invalid_body", path: ["credentials", "dpop_key"], message: expect.stringContaining("P-256") },
    ]);
    expect(holds(body, dpop_key.slice(30, 60) || dpop_key)).toBe(false);
    const shown = await running().rest("GET", `/connections/refused?provider_config_key=${provider_config_key}`);
    expect(shown.status).toBe(404);
  }
});

it("refuses such a key that is no text", async () => {
  const credentials = { type: "OAUTH2", access_token: "t", dpop_key: { kty: "EC" } };
  const { status, body } = await post({ provider_config_key: integrationOf(credentials), credentials });
  expect([status, body.error.errors[0].path]).toEqual([400, ["credentials", "dpop_key"]]);
});
