import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ConnectError } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { sidecarOfFile } from "../../support/sidecar/door.ts";
import { adminKey, keyedConnection, temporaryFolder } from "../../support/sidecar/harness.ts";
import { launch } from "../../support/sidecar/process.ts";

const running = sidecarOfFile();
const known = 'there is no environment "prdo". You have: dev, prod';

const call = async (method: string, body: object, key = adminKey) => {
  const answer = await fetch(`${running().control}/latchkey.v1.${method}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  // biome-ignore lint/suspicious/noExplicitAny: the test says itself what it expects of an answer.
  return { status: answer.status, body: (await answer.json()) as any };
};

const prod = async () => {
  const client = running().client(EnvironmentService);
  await client.createEnvironment({ name: "prod" }).catch((error) => {
    if (ConnectError.from(error).rawMessage.includes("already")) return;
    throw error;
  });
};

const environment = "prdo";
const connection = { environment, integration: "keyed", id: "ada" };

it.each([
  ["ConnectionService/ListConnections", { environment }],
  ["ConnectionService/GetConnection", { ref: connection }],
  ["ConnectionService/DeleteConnection", { ref: connection }],
  ["ConnectionService/UpdateMetadata", { ref: connection, metadata: {} }],
  ["ConnectionService/ImportConnection", { connection: { ...connection, credentials: { apiKey: { apiKey: "x" } } } }],
  ["IntegrationService/ListIntegrations", { environment }],
  ["IntegrationService/GetIntegration", { environment, key: "keyed" }],
  ["IntegrationService/CreateIntegration", { integration: { environment, key: "a", provider: "calendar" } }],
  ["ConnectSessionService/CreateConnectSession", { environment }],
  ["ChannelService/ListChannels", { environment }],
  ["ChannelService/GetChannel", { environment, id: "a" }],
  ["ChannelService/CreateChannel", { connection }],
  ["LogService/ListLogs", { environment }],
  ["LogService/GetLog", { environment, id: "a" }],
  ["LogService/ListAuditEvents", { environment }],
  ["EnvironmentService/GetEnvironment", { name: environment }],
  ["EnvironmentService/UpdateEnvironment", { environment: { name: environment } }],
  ["EnvironmentService/DeleteEnvironment", { name: environment }],
  ["EnvironmentService/CreateKey", { id: "new", environment, scopes: ["SCOPE_PROXY"] }],
  ["EnvironmentService/ListKeys", { environment }],
  ["EnvironmentService/ListSigningSecrets", { environment }],
  ["EnvironmentService/RotateSigningSecret", { environment }],
  ["WebhookService/ListNotifications", { environment }],
  ["WebhookService/ListForwards", { environment }],
  ["WebhookService/ListDestinations", { environment }],
  ["SyncService/ListSyncs", { environment, integration: "keyed" }],
  ["SyncService/ListRuns", { environment }],
  ["SyncService/ListRecords", { connection, model: "M" }],
])("%s of an unknown environment names the existing ones", async (method, body) => {
  await prod();
  const answer = await call(method, body);
  expect([answer.status, answer.body.code, answer.body.message]).toEqual([404, "not_found", known]);
  expect(answer.body.details[0].debug.reason).toBe("unknown_environment");
});

it("reports it for each item of a batch", async () => {
  await prod();
  const item = { ...connection, credentials: { apiKey: { apiKey: "x" } } };
  const { body } = await call("ConnectionService/BatchImportConnections", { connections: [item, item] });
  for (const { problem } of body.results)
    expect(problem).toMatchObject({ code: "unknown_environment", message: known });
});

it("reveals no other environment to an environment's key", async () => {
  await prod();
  const { key, secret } = await running().client(EnvironmentService).createKey({ id: "of-dev", environment: "dev" });
  expect(key?.environment).toBe("dev");
  for (const other of ["prdo", "prod"]) {
    const { body } = await call("ConnectionService/ListConnections", { environment: other }, secret);
    expect(body.code).toBe("permission_denied");
    expect(JSON.stringify(body)).not.toContain("You have");
  }
});

it("is gone at once when it is deleted", async () => {
  const client = running().client(EnvironmentService);
  await client.createEnvironment({ name: "short" });
  expect((await call("ConnectionService/ListConnections", { environment: "short" })).status).toBe(200);
  await client.deleteEnvironment({ name: "short" });
  expect((await call("ConnectionService/ListConnections", { environment: "short" })).status).toBe(404);
  const { body } = await call("LogService/ListAuditEvents", { environment: "short" });
  expect(body.events.length).toBeGreaterThan(0);
});

it.each([
  ["connections", "list"],
  ["connections", "get", "keyed/ada"],
  ["integrations", "list"],
  ["channels", "list"],
  ["syncs", "list", "keyed/ada"],
  ["logs"],
  ["keys", "list"],
])("latchkey %s %s -e prdo fails and names the environments", async (...command) => {
  await prod();
  const args = command.filter((one) => typeof one === "string");
  const cli = launch([...args, "-e", "prdo"], {
    folder: await temporaryFolder(),
    env: { LATCHKEY_CONTROL: running().control, LATCHKEY_KEY: adminKey },
  });
  expect(await cli.exited).toBe(1);
  expect(cli.stderr()).toContain('there is no environment "prdo" (unknown_environment). You have: dev, prod');
});

it("an import of a file reports it for its lines", async () => {
  await prod();
  const folder = await temporaryFolder();
  const file = join(folder, "connections.ndjson");
  await writeFile(file, `${JSON.stringify(keyedConnection("ada"))}\n`);
  const cli = launch(["connections", "import", file, "-e", "prdo"], {
    folder,
    env: { LATCHKEY_CONTROL: running().control, LATCHKEY_KEY: adminKey },
  });
  expect(await cli.exited).toBe(3);
  expect(cli.stdout() + cli.stderr()).toContain("You have: dev, prod");
});
