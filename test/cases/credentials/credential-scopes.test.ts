import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { ConnectSessionService } from "../../../src/gen/latchkey/v1/connect_session_pb.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import {
  Integration_Callback,
  Integration_Reflection,
  type IntegrationSchema,
  IntegrationService,
} from "../../../src/gen/latchkey/v1/integration_pb.ts";
import type { Provider, ProviderSchema } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { startProvider, startProxied } from "../../support/peers/provider.ts";
import { keyWith, setUp } from "../../support/sidecar/door.ts";
import { startTestSidecar, type TestSidecar } from "../../support/sidecar/harness.ts";
import { call } from "../../support/wire/proxy-call.ts";

type ProviderInit = Exclude<MessageInitShape<typeof ProviderSchema>, Provider>;
type IntegrationInit = MessageInitShape<typeof IntegrationSchema>;

const value = "${connectionConfig.v}";
const key = { auth: { case: "apiKey", value: {} } } as const;
const urls = { authorizationUrl: "https://a.test/auth", tokenUrl: "https://a.test/token" };
const oauth2 = (more: object) => ({ auth: { case: "oauth2", value: { ...urls, ...more } } }) as ProviderInit;
const oauth1 = {
  requestTokenUrl: "https://a.test/r",
  authorizationUrl: "https://a.test/a",
  accessTokenUrl: "https://a.test/t",
};
const twoStep = (more: object) =>
  ({
    auth: { case: "twoStep", value: { tokenUrl: "https://a.test/token", fields: ["key"], ...more } },
  }) as ProviderInit;
const request = { method: "GET", path: `/users/${value}`, body: "" };
const channel = (more: object) =>
  ({
    ...key,
    channel: { resources: { things: { watch: { method: "POST", path: "/watch", body: "{}" } } }, ...more },
  }) as ProviderInit;

/** Each part of a description that can contain a value of `connection_config`. */
const places: Readonly<Record<string, ProviderInit>> = {
  "the host of the base URL": { ...key, proxy: { baseUrl: `https://${value}.a.test` } },
  "the path of the base URL": { ...key, proxy: { baseUrl: `https://a.test/${value}` } },
  "the token URL": oauth2({ tokenUrl: `https://${value}.a.test/token` }),
  "the path of the token URL": oauth2({ tokenUrl: `https://a.test/${value}/token` }),
  "the refresh URL": oauth2({ refreshUrl: `https://${value}.a.test/token` }),
  "the revocation URL": oauth2({ revocationUrl: `https://${value}.a.test/revoke` }),
  "the authorization URL": oauth2({ authorizationUrl: `https://${value}.a.test/auth` }),
  "the device authorization URL": oauth2({ deviceAuthorizationUrl: `https://${value}.a.test/device` }),
  "the pushed authorization URL": oauth2({ pushedAuthorizationUrl: `https://${value}.a.test/par` }),
  "the metadata URL": oauth2({ metadataUrl: `https://${value}.a.test/meta`, issuer: "https://a.test" }),
  "the key set's URL": oauth2({ jwksUrl: `https://${value}.a.test/keys`, issuer: "https://a.test" }),
  "the token URL of client credentials": {
    auth: { case: "oauth2Client", value: { tokenUrl: `https://${value}.a.test/token` } },
  },
  "OAuth 1's request token URL": {
    auth: { case: "oauth1", value: { ...oauth1, requestTokenUrl: `https://${value}.a.test/r` } },
  },
  "OAuth 1's realm": { auth: { case: "oauth1", value: { ...oauth1, realm: value } } },
  "the URL of an exchange": twoStep({ tokenUrl: `https://${value}.a.test/token` }),
  "a parameter of an exchange": twoStep({ request: { params: { tenant: value } } }),
  "a header of an exchange": twoStep({ request: { headers: { "x-tenant": value } } }),
  "a claim of a JWT": {
    auth: { case: "jwt", value: { jwt: { algorithm: "HS256", keyField: "key", claims: { sub: { of: [value] } } } } },
  },
  "the header of a JWT": {
    auth: { case: "jwt", value: { jwt: { algorithm: "HS256", keyField: "key", header: { kid: value } } } },
  },
  "what proves credentials": { ...key, verification: { request } },
  "what describes a connection": {
    ...key,
    describe: [{ request, value: "id", field: "connection_config.id" }],
  },
  "the request for a channel": channel({
    resources: { things: { watch: { method: "POST", path: "/watch", body: `{"of":"${value}"}` } } },
  }),
  "what stops a channel": channel({ stop: { method: "POST", path: `/stop/${value}`, body: "{}" } }),
};

const credentials = { kind: { case: "apiKey", value: { apiKey: "the-key-of-somebody" } } } as const;
/** Credentials that fit the provider's kind. */
function credentialsFor({ auth }: ProviderInit) {
  switch (auth?.case) {
    case "oauth2":
      return { kind: { case: "oauth2", value: { accessToken: "the-token" } } } as const;
    case "oauth2Client":
      return { kind: { case: "oauth2Client", value: { clientId: "i", clientSecret: "s", token: "t" } } } as const;
    case "oauth1":
      return { kind: { case: "oauth1", value: { oauthToken: "t", oauthTokenSecret: "s" } } } as const;
    case "twoStep":
      return { kind: { case: "twoStep", value: { fields: { key: "k" }, token: "t" } } } as const;
    case "jwt":
      return { kind: { case: "jwt", value: { fields: { key: "k" }, token: "t" } } } as const;
    default:
      return credentials;
  }
}

/** The message of the refusal, which names the missing scope; undefined if the call succeeded. */
async function refusalOf(asked: Promise<unknown>): Promise<string | undefined> {
  try {
    await asked;
    return undefined;
  } catch (error) {
    if (!(error instanceof ConnectError)) throw error;
    return error.code === Code.PermissionDenied ? error.message : `another refusal: ${error.message}`;
  }
}

/** A sidecar with a provider, an integration and a connection for each place. */
async function withPlaces(): Promise<{ running: TestSidecar; names: readonly (readonly [string, string])[] }> {
  const running = await startTestSidecar();
  const names: (readonly [string, string])[] = [];
  for (const [i, [what, provider]] of Object.entries(places).entries()) {
    const name = `place-${i}`;
    await setUp(running, {
      name,
      proxy: { baseUrl: "https://a.test" },
      connectionFields: [{ name: "v", pattern: "[a-z]+", defaultValue: "zero" }],
      ...provider,
    });
    await running.client(ConnectionService).importConnection({
      connection: {
        environment: "dev",
        integration: name,
        id: "somebody",
        connectionConfig: { v: "one", note: "x" },
        credentials: credentialsFor(provider),
      },
    });
    names.push([what, name]);
  }
  return { running, names };
}

it("refuses a key without credentials:read that would redirect stored credentials", async () => {
  const { running, names } = await withPlaces();
  const narrow = await keyWith(running, Scope.CONNECTIONS_WRITE, Scope.CONNECTIONS_READ, Scope.PROXY);
  const wide = await keyWith(running, Scope.CONNECTIONS_WRITE, Scope.CREDENTIALS_READ);
  const change = (name: string, secret: string, connectionConfig: Record<string, string>) =>
    running.client(ConnectionService, secret).updateConnection({
      connection: { ref: { environment: "dev", integration: name, id: "somebody" }, connectionConfig },
      updateMask: { paths: ["connection_config"] },
    });
  const configOf = async (name: string) =>
    (
      await running
        .client(ConnectionService)
        .getConnection({ ref: { environment: "dev", integration: name, id: "somebody" } })
    ).connection?.connectionConfig;
  for (const [what, name] of names) {
    for (const moved of [{ v: "two", note: "x" }, { note: "x" }, { v: "", note: "x" }]) {
      const refused = await refusalOf(change(name, narrow, moved as Record<string, string>));
      expect(refused, what).toMatch(/connection_config\.v .* credentials:read.*import the connection again/);
    }
    expect(await configOf(name), what).toEqual({ v: "one", note: "x" });
    expect(await refusalOf(change(name, narrow, { v: "one", note: "y" })), what).toBeUndefined();
    expect(await refusalOf(change(name, wide, { v: "two" })), what).toBeUndefined();
    expect(await configOf(name), what).toEqual({ v: "two" });
  }
  // The credentials again, in the same request.
  const { status } = await running.rest("POST", "/connections", {
    key: narrow,
    body: {
      provider_config_key: names[0]?.[1],
      connection_id: "somebody",
      connection_config: { v: "three" },
      credentials: { type: "API_KEY", apiKey: "a-key-of-the-caller" },
    },
  });
  expect(status).toBe(201);
});

it("refuses a session or a device that would move a connection's credentials", async () => {
  const { running, names } = await withPlaces();
  const narrow = await keyWith(running, Scope.CONNECTIONS_WRITE);
  const wide = await keyWith(running, Scope.CONNECTIONS_WRITE, Scope.CREDENTIALS_READ);
  for (const [what, name] of names) {
    const again = (secret: string, connection_config: object) =>
      running.rest("POST", "/connect/sessions/reconnect", {
        key: secret,
        body: {
          integration_id: name,
          connection_id: "somebody",
          integrations_config_defaults: { [name]: { connection_config } },
        },
      });
    const refused = await again(narrow, { v: "two" });
    expect([refused.status, refused.body.error.code], what).toEqual([403, "missing_scope"]);
    expect(refused.body.error.message, what).toMatch(/connection_config\.v/);
    expect((await again(narrow, { v: "one", note: "y" })).status, what).toBe(201);
    expect((await again(wide, { v: "two" })).status, what).toBe(201);
    const byRpc = running.client(ConnectSessionService, narrow).createConnectSession({
      environment: "dev",
      reconnect: { environment: "dev", integration: name, id: "somebody" },
      integrationDefaults: { [name]: { connectionConfig: { v: "two" } } },
    });
    expect(await refusalOf(byRpc), what).toMatch(/connection_config\.v/);
    const device = running.client(ConnectSessionService, narrow).beginDeviceAuthorization({
      environment: "dev",
      integration: name,
      connectionId: "somebody",
      connectionConfig: { v: "two" },
    });
    expect(await refusalOf(device), what).toMatch(/connection_config\.v/);
  }
});

it("refuses a key without credentials:read that would change where an integration's credentials go", async () => {
  const { running, names } = await withPlaces();
  const narrow = await keyWith(running, Scope.INTEGRATIONS_WRITE, Scope.INTEGRATIONS_READ);
  const wide = await keyWith(running, Scope.INTEGRATIONS_WRITE, Scope.CREDENTIALS_READ);
  const change = (name: string, secret: string, paths: string[], integration: IntegrationInit) =>
    running.client(IntegrationService, secret).updateIntegration({
      integration: { environment: "dev", key: name, ...integration },
      updateMask: { paths },
    });
  for (const [what, name] of names) {
    const defaults = { integration_config: { v: "two" } };
    const refused = await running.rest("PATCH", `/integrations/${name}`, { key: narrow, body: defaults });
    expect([refused.status, refused.body.error.code], what).toEqual([403, "missing_scope"]);
    const byRpc = change(name, narrow, ["connection_defaults"], { connectionDefaults: { v: "two" } });
    expect(await refusalOf(byRpc), what).toMatch(/connection_defaults\.v .* credentials:read/);
    const harmless = { integration_config: { note: "x" } };
    expect((await running.rest("PATCH", `/integrations/${name}`, { key: narrow, body: harmless })).status, what).toBe(
      200,
    );
    expect((await running.rest("PATCH", `/integrations/${name}`, { key: wide, body: defaults })).status, what).toBe(
      200,
    );
  }
  const name = names[0]?.[1] ?? "";
  const guarded = { reflection: Integration_Reflection.REFUSE };
  const exposing: readonly (readonly [string, IntegrationInit])[] = [
    ["hosts", { hosts: [{ origin: "https://elsewhere.test" }] }],
    ["hosts", { hosts: [{ prefix: "/", origin: "https://elsewhere.test" }] }],
    ["reflection", { reflection: Integration_Reflection.OFF }],
    ["keep_set_cookie", { keepSetCookie: true }],
    ["credentials_in_scripts", { credentialsInScripts: true }],
  ];
  expect(await refusalOf(change(name, narrow, ["reflection"], guarded))).toBeUndefined();
  for (const [path, integration] of exposing) {
    expect(await refusalOf(change(name, narrow, [path], integration)), path).toMatch(/credentials:read/);
    const hidden = change(name, narrow, ["display_name", path], { displayName: "x", ...integration });
    expect(await refusalOf(hidden), path).toMatch(/credentials:read/);
    expect(await refusalOf(change(name, wide, [path], integration)), path).toBeUndefined();
    // Reverting exposes nothing, and an equal value is not a change.
    expect(await refusalOf(change(name, narrow, [path], integration)), path).toBeUndefined();
    expect(await refusalOf(change(name, narrow, [path], { ...guarded, hosts: [] })), path).toBeUndefined();
  }
  const { integration } = await running.client(IntegrationService).getIntegration({ environment: "dev", key: name });
  expect(integration?.displayName).toBe("");
  // With a callback address that providers share, a code may reach the wrong one.
  const [, oauth = ""] = names.find(([what]) => what === "the token URL") ?? [];
  const shared = { callback: Integration_Callback.SHARED };
  expect(await refusalOf(change(oauth, narrow, ["callback"], shared))).toMatch(/callback .* credentials:read/);
  expect(await refusalOf(change(oauth, wide, ["callback"], shared))).toBeUndefined();
  const bound = { callback: Integration_Callback.BOUND };
  expect(await refusalOf(change(oauth, narrow, ["callback"], bound))).toBeUndefined();
});

it("sends no request by path to a host of the integration, only by name", async () => {
  const provider = await startProvider();
  const other = await startProvider();
  const running = await startProxied(provider.port, {
    env: { LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${provider.port},http://127.0.0.1:${other.port}` },
  });
  const elsewhere = `https://127.0.0.1:${other.port}`;
  const { integration } = await running.client(IntegrationService).updateIntegration({
    integration: { environment: "dev", key: "here", hosts: [{ prefix: "/", origin: elsewhere }] },
    updateMask: { paths: ["hosts"] },
  });
  expect(integration?.warnings.map(({ code }) => code)).toEqual(["host_prefix_ignored"]);
  await call(`${running.data}/proxy/innocent`, { headers: running.proxyHeaders });
  expect([provider.connections.length, other.connections.length]).toEqual([1, 0]);
  const named = { ...running.proxyHeaders, "base-url-override": elsewhere };
  expect((await call(`${running.data}/proxy/asked`, { headers: named })).status).toBe(200);
  expect(other.received()).toMatch(/^GET \/asked HTTP/);
});

it("keeps a token request where it is when the configuration may not be changed", async () => {
  const elsewhere = await startProvider();
  const at = `127.0.0.1:${elsewhere.port}`;
  const running = await startTestSidecar({ env: { LATCHKEY_ALLOW_PRIVATE: `http://${at}` } });
  await setUp(running, {
    name: "moving",
    auth: { case: "oauth2", value: { ...urls, tokenUrl: "https://${connectionConfig.host}/token" } },
    proxy: { baseUrl: "https://${connectionConfig.host}" },
    connectionFields: [{ name: "host", pattern: ".*", required: true }],
  });
  await running.client(ConnectionService).importConnection({
    connection: {
      ...{ environment: "dev", integration: "moving", id: "somebody", connectionConfig: { host: "good.test" } },
      credentials: { kind: { case: "oauth2", value: { accessToken: "the-token", refreshToken: "the-refresh-token" } } },
    },
  });
  const narrow = await keyWith(running, Scope.CONNECTIONS_WRITE, Scope.CONNECTIONS_READ, Scope.PROXY);
  const ref = { environment: "dev", integration: "moving", id: "somebody" };
  const moved = running.client(ConnectionService, narrow).updateConnection({
    connection: { ref, connectionConfig: { host: at } },
    updateMask: { paths: ["connection_config"] },
  });
  expect(await refusalOf(moved)).toMatch(/connection_config\.host decides where stored credentials go/);
  await refusalOf(running.client(ConnectionService, narrow).refreshConnection({ ref }));
  const headers = { authorization: `Bearer ${narrow}`, "provider-config-key": "moving", "connection-id": "somebody" };
  await call(`${running.data}/proxy/x`, { headers });
  expect(elsewhere.connections).toEqual([]);
});
