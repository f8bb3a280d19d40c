import { beforeAll, describe, expect, it } from "vitest";
import { ConnectionService } from "../../src/gen/latchkey/v1/connection_pb.ts";
import { setUp, sidecarOfFile } from "../door.ts";
import { canary, everyKind, integrationOf, setUpEveryKind } from "../every-kind.ts";

const running = sidecarOfFile();
beforeAll(() => setUpEveryKind(running()));

const post = (body: unknown) => running().rest("POST", "/connections", { body });
const get = async (key: string, query = "") =>
  (await running().rest("GET", `/connections/c?provider_config_key=${key}${query}`)).body.credentials;

/** Whether a text stands anywhere in a value. */
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

    // What was shown is what may be sent.
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

  it("is not shown to those who did not ask", async () => {
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
])("leaves the refresh token of %s out at any depth unless it is asked for", async (type, credentials) => {
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

it("shows a client certificate, which is imported over gRPC alone", async () => {
  await setUp(running(), { name: "kind-client-certificate", auth: { case: "clientCertificate", value: {} } });
  const kind = { case: "clientCertificate" as const, value: { certificate: "pem", privateKey: "key" } };
  const connection = { environment: "dev", integration: "kind-client-certificate", id: "c", credentials: { kind } };
  await running().client(ConnectionService).importConnection({ connection });
  expect(await get("kind-client-certificate")).toEqual({
    type: "CLIENT_CERTIFICATE",
    certificate: "pem",
    private_key: "key",
  });
});
