import { hasOption } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { Scope, scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { keyWith, sidecarOfFile } from "../../support/sidecar/door.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { endOf, foreignClient, type Plain, post } from "./foreign.ts";
import { services } from "./services.ts";

const running = sidecarOfFile();
const call = (method: string, body: Plain, key?: string) =>
  post(running().control, method, body, key === undefined ? {} : { key });

const credentials = { apiKey: { apiKey: "k-of-prod" } };
const refInProd = { environment: "prod", integration: "keyed", id: "theirs" };

/** An environment beside `dev`, with the same integration, a connection and a secret in it. */
async function fillProd(): Promise<void> {
  const { client } = running();
  await client(EnvironmentService).createEnvironment({ name: "prod" });
  const integration = { environment: "prod", key: "keyed", provider: "example-api-key" };
  await call("IntegrationService/CreateIntegration", {
    integration: { ...integration, secrets: { clientSecret: "s" } },
  });
  const { status } = await call("ConnectionService/ImportConnection", { connection: { ...refInProd, credentials } });
  expect(status).toBe(200);
}
let filled: Promise<void> | undefined;
const prodIsFilled = () => {
  filled ??= fillProd();
  return filled;
};

/** Every way in which another environment's key could reach into an environment. */
const reaches: readonly (readonly [method: string, request: Plain])[] = [
  ["ConnectionService/ImportConnection", { connection: { ...refInProd, credentials } }],
  ["ConnectionService/GetConnection", { ref: refInProd }],
  ["ConnectionService/GetConnection", { ref: refInProd, includeCredentials: true }],
  ["ConnectionService/ListConnections", { environment: "prod" }],
  ["ConnectionService/UpdateConnection", { connection: { ref: refInProd, tags: { a: "b" } }, updateMask: "tags" }],
  ["ConnectionService/UpdateMetadata", { ref: refInProd, metadata: { a: 1 } }],
  ["ConnectionService/DeleteConnection", { ref: refInProd }],
  ["IntegrationService/CreateIntegration", { integration: { environment: "prod", key: "x", provider: "calendar" } }],
  ["IntegrationService/GetIntegration", { environment: "prod", key: "keyed", includeSecrets: true }],
  ["IntegrationService/ListIntegrations", { environment: "prod" }],
  [
    "IntegrationService/UpdateIntegration",
    { integration: { environment: "prod", key: "keyed", provider: "x", displayName: "y" }, updateMask: "displayName" },
  ],
  ["IntegrationService/DeleteIntegration", { environment: "prod", key: "keyed" }],
  ["EnvironmentService/GetEnvironment", { name: "prod" }],
];

const prodNow = async () => {
  const { body } = await call("ConnectionService/GetConnection", { ref: refInProd, includeCredentials: true });
  const { lastFetchedAt: _moves, ...connection } = body["connection"];
  const { body: integrations } = await call("IntegrationService/ListIntegrations", { environment: "prod" });
  return { connection, credentials: body["credentials"], integrations };
};

it.each(reaches)("refuses another environment's key in %s %j", async (method, request) => {
  await prodIsFilled();
  const before = await prodNow();
  const { status, body } = await call(method, request, secretKey);
  expect([status, body["code"]]).toEqual([403, "permission_denied"]);
  expect(JSON.stringify(body)).not.toContain("k-of-prod");
  expect(await prodNow()).toEqual(before);
});

it("refuses it in the items of a batch too", async () => {
  await prodIsFilled();
  const before = await prodNow();
  const item = { ...refInProd, credentials };
  const batches: readonly (readonly [method: string, request: Plain])[] = [
    ["BatchImportConnections", { connections: [item, { ...item, id: "another" }] }],
    ["BatchGetConnections", { refs: [refInProd] }],
    ["BatchUpdateMetadata", { updates: [{ ref: refInProd, metadata: { a: 1 } }] }],
    ["BatchDeleteConnections", { deletions: [{ ref: refInProd }] }],
  ];
  for (const [method, request] of batches) {
    const { status, body } = await call(`ConnectionService/${method}`, request, secretKey);
    expect(status).toBe(200);
    for (const { problem, connection } of body["results"]) {
      expect({ method, code: problem.code, connection }).toEqual({
        method,
        code: "missing_scope",
        connection: undefined,
      });
    }
  }
  expect(await prodNow()).toEqual(before);
});

it.each(["ConnectionService/WatchConnections", "IntegrationService/WatchIntegrations"])(
  "refuses it in %s",
  async (method) => {
    await prodIsFilled();
    const stream = foreignClient(running().control).serverStream(method, { environment: "prod" }, { key: secretKey });
    const seen: Plain[] = [];
    stream.on("data", (step: Plain) => seen.push(step));
    expect((await endOf(stream)).code).toBe(7);
    expect(seen).toEqual([]);
  },
);

it("means its own environment by none, and shows it no other in lists", async () => {
  await prodIsFilled();
  const { body: listed } = await call("EnvironmentService/ListEnvironments", {}, secretKey);
  expect(listed["environments"].map(({ name }: Plain) => name)).toEqual(["dev"]);
  const { body: mine } = await call(
    "ConnectionService/ImportConnection",
    {
      connection: { integration: "keyed", id: "mine", credentials },
    },
    secretKey,
  );
  expect(mine["connection"].ref.environment).toBe("dev");
  const { body: integrations } = await call("IntegrationService/ListIntegrations", {}, secretKey);
  expect(integrations["integrations"].every(({ environment }: Plain) => environment === "dev")).toBe(true);
});

it("asks a control key which environment it means, where there are several", async () => {
  await prodIsFilled();
  const { status, body } = await call("ConnectionService/ListConnections", {});
  expect([status, body["code"]]).toEqual([400, "invalid_argument"]);
  const { body: listed } = await call("EnvironmentService/ListEnvironments", {});
  expect(listed["environments"].map(({ name }: Plain) => name)).toEqual(["dev", "prod"]);
});

it("shows an integration's secrets only on request and with permission", async () => {
  const secrets = { clientSecret: "s3cret-of-the-app", webhookSecret: "s3cret-of-hooks", privateKey: "s3cret-pem" };
  const integration = { environment: "dev", key: "sealed", provider: "calendar", secrets };
  const created = await call("IntegrationService/CreateIntegration", { integration });
  const reader = await keyWith(running(), Scope.INTEGRATIONS_READ, Scope.INTEGRATIONS_WRITE);
  const seer = await keyWith(running(), Scope.INTEGRATIONS_READ, Scope.CREDENTIALS_READ);
  const named = { environment: "dev", key: "sealed" };

  const update = { integration: { ...integration, displayName: "x" }, updateMask: "displayName" };
  const blind = [
    created,
    await call("IntegrationService/GetIntegration", named, reader),
    await call("IntegrationService/GetIntegration", named, seer),
    await call("IntegrationService/ListIntegrations", { environment: "dev" }, seer),
    await call("IntegrationService/UpdateIntegration", update, reader),
  ];
  for (const { status, body } of blind) {
    expect(status).toBe(200);
    expect(JSON.stringify(body)).not.toContain("s3cret");
  }
  const refused = await call("IntegrationService/GetIntegration", { ...named, includeSecrets: true }, reader);
  expect([refused.status, refused.body["code"]]).toEqual([403, "permission_denied"]);
  const { body } = await call("IntegrationService/GetIntegration", { ...named, includeSecrets: true }, seer);
  expect(body["integration"].secrets).toEqual(secrets);
  expect(running().logged.filter((line) => line.includes("s3cret"))).toEqual([]);
});

it("shows credentials on request and with permission, and the refresh token only by name", async () => {
  const ref = { environment: "dev", integration: "calendar", id: "refreshed" };
  const oauth2 = { accessToken: "t-access", refreshToken: "t-refresh", raw: { refresh_token: "t-refresh" } };
  await call("ConnectionService/ImportConnection", { connection: { ...ref, credentials: { oauth2 } } });
  const reader = await keyWith(running(), Scope.CONNECTIONS_READ);
  const get = (more: Plain, key?: string) => call("ConnectionService/GetConnection", { ref, ...more }, key);

  expect((await get({})).body["credentials"]).toBeUndefined();
  expect((await get({ includeCredentials: true }, reader)).status).toBe(403);
  expect((await get({}, reader)).status).toBe(200);
  const without = await get({ includeCredentials: true });
  expect(without.body["credentials"].oauth2.accessToken).toBe("t-access");
  expect(JSON.stringify(without.body)).not.toContain("t-refresh");
  const all = await get({ includeCredentials: true, includeRefreshToken: true });
  expect(all.body["credentials"].oauth2.refreshToken).toBe("t-refresh");
});

it("shows the secret of a key once", async () => {
  const { body } = await call("EnvironmentService/CreateKey", { environment: "dev", id: "shown-once" });
  expect(body["secret"]).toMatch(/^lk_[\w-]{38}$/);
  const { body: listed } = await call("EnvironmentService/ListKeys", { environment: "dev", pageSize: 1_000 });
  const key = listed["keys"].find(({ id }: Plain) => id === "shown-once");
  expect(Object.keys(key)).not.toContain("secret");
  expect(JSON.stringify(listed)).not.toContain(body["secret"]);
});

it("implements every method of its description", async () => {
  // Without a dashboard, which this sidecar has not, browsers cannot sign in.
  const open = services
    .filter(({ name }) => name !== "SignInService")
    .flatMap((service) => service.methods)
    .filter((method) => hasOption(method, scope));
  expect(open.length).toBeGreaterThan(70);
  for (const { parent, name } of open.filter(({ methodKind }) => methodKind === "unary")) {
    const { body } = await call(`${parent.typeName}/${name}`, {});
    expect({ name, code: body["code"] }).not.toEqual({ name, code: "unimplemented" });
  }
  for (const { parent, name } of open.filter(({ methodKind }) => methodKind === "server_streaming")) {
    const stream = foreignClient(running().control).serverStream(`${parent.typeName}/${name}`, {});
    stream.resume();
    // A watch runs until the caller ends it.
    setTimeout(() => stream.cancel(), 200);
    expect({ name, code: (await endOf(stream)).code }).not.toEqual({ name, code: 12 });
  }
});
