import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { ConnectionImportSchema, ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { head, keyWith, say } from "../../support/sidecar/door.ts";
import { canary, everyKind, integrationOf, setUpEveryKind } from "../../support/sidecar/every-kind.ts";
import {
  adminKey,
  createIntegrations,
  secretKey,
  startTestSidecar,
  temporaryFolder,
} from "../../support/sidecar/harness.ts";
import { formsOf } from "../../support/wire/secret-forms.ts";

async function filesUnder(folder: string): Promise<ReadonlyMap<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return new Map(await Promise.all(files.map(async (path) => [path, await readFile(path, "latin1")] as const)));
}

it("I07 shows the secrets of an import only to callers that may see them", async () => {
  const folder = await temporaryFolder();
  const running = await startTestSidecar({ folder });
  const { rest, client, data, ops, logged, world } = running;
  await createIntegrations(running);
  await setUpEveryKind(running);
  const writer = await keyWith(running, Scope.CONNECTIONS_WRITE);
  const reader = await keyWith(running, Scope.CONNECTIONS_READ);

  const secrets = new Map<string, string>([
    ["the environment's key", secretKey],
    ["the control key", adminKey],
    ["a writer's key", writer],
    ["a reader's key", reader],
  ]);
  /** All texts that callers without access to secrets received. */
  const told: string[] = [];
  const ask = async (...request: Parameters<typeof rest>) => {
    const answer = await rest(...request);
    told.push(JSON.stringify([answer.body ?? "", ...answer.headers]));
    return answer.status;
  };
  // Found in the store's files: it shows that a search there finds something.
  const visible = canary("visible");

  for (const kind of everyKind) {
    const { type } = kind;
    const secret = (name: string) => {
      const made = canary(name);
      secrets.set(`${type} ${name}`, made);
      return made;
    };
    const credentials = { type, ...kind.whole(secret) };
    const provider_config_key = integrationOf(kind);
    const body = { provider_config_key, connection_id: "c", credentials, metadata: { visible } };
    const at = `/connections/c?provider_config_key=${provider_config_key}`;
    const some = JSON.stringify(Object.values(credentials).at(1) ?? "x");

    // A caller with access sees the credentials; this response is not collected.
    const shown = await rest("POST", "/connections", { body });
    expect(shown.body.credentials).toMatchObject(credentials);
    expect((await rest("GET", `${at}&refresh_token=true`)).body.credentials).toMatchObject(credentials);

    expect(await ask("POST", "/connections", { body, key: writer })).toBe(201);
    expect(await ask("GET", at, { key: reader })).toBe(200);
    expect(await ask("GET", `/connections?integrationId=${provider_config_key}`)).toBe(200);
    expect(await ask("PATCH", at, { body: { tags: { a: "b" }, credentials } })).toBe(200);
    const metadata = { connection_id: "c", provider_config_key, metadata: { k: 1 }, credentials };
    expect(await ask("PATCH", "/connections/metadata", { body: metadata })).toBe(200);

    // Every kind of wrong input.
    const other = type === "NONE" ? "keyed" : "kind-none";
    const wrong: readonly (readonly [number, unknown])[] = [
      [400, { ...body, provider_config_key: other }],
      [404, { ...body, provider_config_key: "nowhere" }],
      [400, { ...body, connection_id: "../c" }],
      [400, { ...body, tags: { "1": "x" } }],
      [400, { ...body, credentials: [credentials] }],
      [400, { ...body, credentials: JSON.stringify(credentials) }],
      [400, { ...body, credentials: { ...credentials, type: "SOMETHING" } }],
      [400, { ...body, credentials: { ...credentials, type: some } }],
      [400, JSON.stringify(body).slice(0, -1)],
      [400, `${JSON.stringify(body)}${some}`],
      [413, { ...body, padding: "x".repeat(600_000) }],
    ];
    for (const [status, request] of wrong) {
      expect(await ask("POST", "/connections", { body: request, key: writer })).toBe(status);
    }
    // Wrong for some kinds only: free-form kinds accept anything, and kinds without an expiry ignore one.
    for (const odd of [
      { expires_at: some, expires_in: some },
      { raw: some, config_override: some },
    ]) {
      const request = { ...body, credentials: { ...credentials, ...odd } };
      expect([201, 400]).toContain(await ask("POST", "/connections", { body: request, key: writer }));
    }
    expect(await ask("POST", "/connections", { body, headers: { "content-type": "text/plain" } })).toBe(415);
    expect(await ask("POST", "/connections", { body, key: reader })).toBe(403);
    expect(await ask("POST", "/connections", { body, key: `${secretKey}x` })).toBe(401);

    // Over gRPC, where each kind is another message.
    const mistyped = create(ConnectionImportSchema, {
      environment: "dev",
      integration: other,
      id: "c",
      credentials: { kind: { case: "basic", value: { username: some, password: some } } },
    });
    const { results } = await client(ConnectionService).batchImportConnections({ connections: [mistyped] });
    told.push(JSON.stringify(results.map(({ problem }) => problem ?? "")));
    const refused = await client(ConnectionService)
      .importConnection({ connection: mistyped })
      .catch((error: unknown) => error);
    if (!(refused instanceof ConnectError)) throw new Error("what is mistyped was imported");
    told.push(refused.message, JSON.stringify(refused.details));
  }

  // The same of integrations: they hold secrets of their own.
  const app = {
    type: "OAUTH2",
    client_id: "id",
    client_secret: canary("client_secret"),
    webhook_secret: canary("webhook_secret"),
    private_key: canary("private_key"),
  };
  for (const name of ["client_secret", "webhook_secret", "private_key"] as const) secrets.set(name, app[name]);
  const integration = { unique_key: "with-secrets", provider: "calendar", credentials: app };
  expect(await ask("POST", "/integrations", { body: integration })).toBe(200);
  expect(await ask("POST", "/integrations", { body: integration })).toBe(409);
  expect(await ask("POST", "/integrations", { body: { ...integration, unique_key: "/" } })).toBe(400);
  expect(await ask("POST", "/integrations", { body: { ...integration, provider: "nobody" } })).toBe(404);
  expect(await ask("PATCH", "/integrations/with-secrets", { body: { credentials: app } })).toBe(200);
  expect(await ask("PATCH", "/integrations/with-secrets", { body: { credentials: { ...app, type: "APP" } } })).toBe(
    400,
  );
  expect(await ask("GET", "/integrations/with-secrets?include=webhook")).toBe(200);
  expect(await ask("GET", "/integrations/with-secrets?include=credentials", { key: reader })).toBe(403);
  expect(await ask("GET", "/integrations")).toBe(200);
  const seen = await rest("GET", "/integrations/with-secrets?include=credentials");
  expect(seen.body.data.credentials.client_secret).toBe(app.client_secret);

  // Keys and tokens in wrong places: the path, the query, a header, bytes that are not HTTP.
  const stray = [...secrets.values()].slice(0, 8);
  for (const secret of stray) {
    expect(await ask("GET", `/connections?limit=${secret}&page=${secret}&cursor=${secret}&${secret}=1`)).toBe(400);
    expect(await ask("GET", `/connections/c?provider_config_key=keyed&force_refresh=${secret}`)).toBe(400);
    expect(await ask("GET", `/${secret}`)).toBe(404);
    expect(await ask("GET", "/connections", { headers: { authorization: `Basic ${btoa(`${secret}:`)}` } })).toBe(401);
    told.push(
      await say(
        data,
        head(`GET /connections HTTP/1.1`, "host: localhost", `authorization: Bearer ${secret}`, "bad header"),
      ),
    );
    told.push(await say(data, `${secret} / HTTP/1.1\r\n\r\n`));
  }

  const { events } = await client(LogService).listAuditEvents({ pageSize: 1_000 });
  expect(events.length).toBeGreaterThan(everyKind.length * 4);
  const exposition = await (await fetch(`${ops}/metrics`)).text();
  expect((await world.metrics.exposition()).text).toContain("latchkey_imported_connections_total");
  await running.stop();
  const files = await filesUnder(folder);

  const places = new Map<string, string>([
    ["what others were told", told.join("\n")],
    ["the log", logged.join("\n")],
    ["the audit trail", JSON.stringify(events, (_, value) => (typeof value === "bigint" ? String(value) : value))],
    ["the metrics", exposition],
    ...files,
  ]);
  expect(secrets.size).toBeGreaterThanOrEqual(40);
  expect([...files.values()].join("")).toContain(visible);
  const hits = [...places].flatMap(([place, text]) =>
    [...secrets].flatMap(([name, secret]) =>
      formsOf(secret)
        .filter((form) => text.includes(form))
        .map((form) => `${name} as ${form} in ${place}`),
    ),
  );
  expect(hits).toEqual([]);
});

it.each([0, 1, 2, 3, 4, 5])("I07 would find a secret in base64 behind %i other letters", (before) => {
  const secret = canary("hidden");
  const text = Buffer.from(`${"x".repeat(before)}${secret}yz`).toString("base64");
  expect(formsOf(secret).some((form) => text.includes(form))).toBe(true);
  expect(formsOf(canary("another")).some((form) => text.includes(form))).toBe(false);
});
