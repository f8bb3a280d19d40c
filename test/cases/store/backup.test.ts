import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Client, createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { describe, expect, it, onTestFinished } from "vitest";
import { createLog } from "../../../src/base/log.ts";
import { createMetrics } from "../../../src/base/metrics/metrics.ts";
import { runCli } from "../../../src/cli/program.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { createContentDigest } from "../../../src/store/backup/backup.ts";
import { parseStoreLocation } from "../../../src/store/location.ts";
import { openBackend } from "../../../src/store/open.ts";
import { postgresForFile } from "../../support/postgres/stores.ts";
import { canary, everyKind, integrationOf, setUpEveryKind } from "../../support/sidecar/every-kind.ts";
import {
  adminKey,
  createIntegrations,
  keyedConnection,
  secretKey,
  startTestSidecar,
  type TestSidecar,
  temporaryFolder,
} from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { launch, serveInProcess } from "../../support/sidecar/process.ts";
import { formsOf } from "../../support/wire/secret-forms.ts";
import { memoryTerminal } from "../cli/memory-terminal.ts";

async function latchkey(...words: readonly string[]) {
  const terminal = memoryTerminal();
  const code = await runCli(words, terminal);
  return { code, out: terminal.out(), err: terminal.err() };
}

/** The content of a store that no process serves. */
async function contentOf(store: string) {
  const location = parseStoreLocation(store);
  if (location === undefined) throw new Error("it is a location");
  const log = createLog({ level: "error", format: "json", write: () => {} });
  const backend = await openBackend(location, { log, metrics: createMetrics(), create: false });
  const digest = createContentDigest();
  const snapshot = await backend.snapshot();
  let newest = 0;
  const connections: string[] = [];
  for await (const page of snapshot.pages()) {
    digest.add(page);
    for (const { key, revision } of page) {
      newest = Math.max(newest, revision);
      if (key.startsWith("connection\0")) connections.push(key.split("\0").at(-1) ?? "");
    }
  }
  await snapshot.close();
  await backend.close();
  return { revision: snapshot.revision, newest, connections, sha256: Buffer.from(digest.result().sha256) };
}

const withKey: Interceptor = (next) => (request) => {
  request.header.set("authorization", `Bearer ${adminKey}`);
  return next(request);
};

/** Imports this number of connections a second, each with its own credentials, until it is stopped. */
function startWriting(connections: Client<typeof ConnectionService>, perSecond: number) {
  const revisions = new Map<string, bigint>();
  const everyMs = 25;
  const atOnce = (perSecond * everyMs) / 1_000;
  /** After a pause of this process, what is due goes in several calls: one has a limit. */
  const most = 500;
  const asked: Promise<void>[] = [];
  let next = 0;
  async function write(ids: readonly string[]): Promise<void> {
    const { results } = await connections.batchImportConnections({
      connections: ids.map((id) => ({
        environment: "dev",
        integration: "keyed",
        id,
        credentials: { kind: { case: "apiKey" as const, value: { apiKey: `key-of-${id}` } } },
        tags: { tags: { n: id } },
      })),
    });
    for (const { ref, revision } of results) revisions.set(ref?.id ?? "", revision);
  }
  const began = performance.now();
  const timer = setInterval(() => {
    const due = Math.floor(((performance.now() - began) / everyMs) * atOnce);
    const ids = Array.from({ length: Math.min(due - next, most) }, (_, i) => `c${next + i}`);
    next += ids.length;
    if (ids.length > 0) asked.push(write(ids));
  }, everyMs);
  onTestFinished(() => clearInterval(timer));
  return {
    revisions,
    async stop(): Promise<void> {
      clearInterval(timer);
      await Promise.all(asked);
    },
  };
}

it("S11 backs up one moment of a store under 2,000 writes a second, and restores exactly that", {
  timeout: 180_000,
}, async () => {
  const folder = await temporaryFolder();
  const running = await serveInProcess({ folder });
  const transport = createGrpcTransport({ baseUrl: running.address("control"), interceptors: [withKey] });
  await createClient(IntegrationService, transport).createIntegration({
    integration: { environment: "dev", key: "keyed", provider: "example-api-key" },
  });
  const writing = startWriting(createClient(ConnectionService, transport), 2_000);
  const written = () => [...writing.revisions];
  await expect.poll(() => writing.revisions.size, { timeout: 60_000 }).toBeGreaterThan(1_000);
  const file = join(folder, "backup");
  const at = ["--address", running.address("control"), "--key", adminKey];
  const made = await latchkey("store", "backup", file, "--json", ...at);
  expect(made.code).toBe(0);
  const manifest = JSON.parse(made.out) as { revision: string; sha256: string };
  const revision = Number(manifest.revision);
  const later = () => written().filter(([, one]) => one > revision);
  await expect.poll(() => later().length, { timeout: 60_000 }).toBeGreaterThan(500);
  await writing.stop();

  const elsewhere = await temporaryFolder();
  const restored = await latchkey("store", "restore", file, "--to", `level:${elsewhere}`);
  expect(restored.code).toBe(0);
  const content = await contentOf(`level:${elsewhere}`);
  expect(content.sha256.toString("base64")).toBe(manifest.sha256);
  expect(content.revision).toBe(revision);
  expect(content.newest).toBe(revision);
  // Everything written up to that moment, and nothing later.
  const before = written()
    .filter(([, one]) => one <= revision)
    .map(([id]) => id);
  expect(content.connections.toSorted()).toEqual(before.toSorted());
  expect(before.length).toBeGreaterThan(1_000);

  const { rest, stop } = await startTestSidecar({ folder: elsewhere });
  const last = before.at(-1);
  const { body } = await rest("GET", `/connections/${last}?provider_config_key=keyed`);
  expect(body.credentials.apiKey).toBe(`key-of-${last}`);
  const [[late] = []] = later();
  expect((await rest("GET", `/connections/${late}?provider_config_key=keyed`)).status).toBe(404);
  await stop();

  const used = await latchkey("store", "restore", file, "--to", `level:${elsewhere}`);
  expect([used.code, used.err]).toEqual([2, expect.stringContaining("is not empty")]);
  expect((await contentOf(`level:${elsewhere}`)).revision).toBeGreaterThanOrEqual(revision);
});

/** Imports one connection of every kind, and returns their secrets. */
async function importEveryKind(running: TestSidecar): Promise<ReadonlyMap<string, string>> {
  await createIntegrations(running);
  await setUpEveryKind(running);
  const secrets = new Map<string, string>([
    ["the environment's key", secretKey],
    ["the control key", adminKey],
  ]);
  for (const kind of everyKind) {
    const secret = (name: string) => {
      const made = canary(name);
      secrets.set(`${kind.type} ${name}`, made);
      return made;
    };
    const credentials = { type: kind.type, ...kind.whole(secret) };
    const body = { provider_config_key: integrationOf(kind), connection_id: "c", credentials };
    expect((await running.rest("POST", "/connections", { body })).status).toBe(201);
  }
  const app = { type: "OAUTH2", client_id: "id", client_secret: canary("app"), webhook_secret: canary("webhook") };
  secrets.set("the app's secret", app.client_secret).set("the webhook's secret", app.webhook_secret);
  const integration = { unique_key: "with-secrets", provider: "calendar", credentials: app };
  expect((await running.rest("POST", "/integrations", { body: integration })).status).toBe(200);
  return secrets;
}

/** Everything that callers see of the imports, secrets included. */
async function shownOf({ rest }: TestSidecar): Promise<unknown[]> {
  const shown: unknown[] = [];
  for (const kind of everyKind) {
    const { body } = await rest("GET", `/connections/c?provider_config_key=${integrationOf(kind)}&refresh_token=true`);
    shown.push(body.credentials, body.metadata, body.created_at);
  }
  shown.push((await rest("GET", "/integrations/with-secrets?include=credentials")).body.data.credentials);
  return shown;
}

it("shows no secret of a connection in a backup, in any form, and restores all of them", async () => {
  const running = await startTestSidecar();
  const secrets = await importEveryKind(running);
  const file = join(running.folder, "backup");
  const at = ["--address", running.control, "--key", adminKey];
  expect((await latchkey("store", "backup", file, ...at)).code).toBe(0);
  const text = await readFile(file, "latin1");
  expect(secrets.size).toBeGreaterThan(20);
  const hits = [...secrets].flatMap(([name, secret]) =>
    formsOf(secret)
      .filter((form) => text.includes(form))
      .map((form) => `${name} as ${form}`),
  );
  expect(hits).toEqual([]);
  // Proves that the search finds text that is not secret.
  expect(text).toContain("with-secrets");

  const folder = await temporaryFolder();
  expect((await latchkey("store", "restore", file, "--to", `level:${folder}`)).code).toBe(0);
  const restored = await startTestSidecar({ folder });
  expect(await shownOf(restored)).toEqual(await shownOf(running));
});

it("restores nothing readable without the encryption keys of the backup", async () => {
  const running = await startTestSidecar();
  const file = join(running.folder, "backup");
  const made = await latchkey("store", "backup", file, "--address", running.control, "--key", adminKey);
  expect(made.out).toContain("key_ids:\n  - test\n");
  const folder = await temporaryFolder();
  const restored = await latchkey("store", "restore", file, "--to", `level:${folder}`);
  expect(restored.out).toContain('required encryption keys: "test"');
  const other = `other:${Buffer.alloc(32, 8).toString("base64")}`;
  const start = startTestSidecar({ folder, env: { LATCHKEY_SEAL_KEYS: other } });
  await expect(start).rejects.toThrow(/"test".*"other"/);
});

it("moves a store only when its latchkey has stopped, and from then on serves the new one alone", async () => {
  const [folder, elsewhere] = [await temporaryFolder(), await temporaryFolder()];
  const running = await serveInProcess({ folder });
  const move = () => launch(["store", "move", "--to", `level:${elsewhere}`], { folder });
  const early = move();
  expect(await early.exited).toBe(1);
  expect(early.stderr()).toContain(`in use by process ${running.child.pid}`);
  expect(await readdir(elsewhere)).toEqual([]);
  running.child.kill("SIGTERM");
  await running.exited;

  const before = await contentOf(`level:${folder}`);
  const moved = move();
  expect(await moved.exited).toBe(0);
  expect(moved.stdout()).toMatch(
    /^moved \d+ entries from level:\S+ to level:\S+; set LATCHKEY_STORE to the new location\n$/,
  );
  expect(await contentOf(`level:${elsewhere}`)).toEqual(before);
  await expect(startTestSidecar({ folder })).rejects.toThrow(`was moved to level:${elsewhere}`);
  const again = await latchkey("store", "move", "--from", `level:${folder}`, "--to", `level:${folder}-2`);
  expect([again.code, again.err]).toEqual([1, expect.stringContaining(`was moved to level:${elsewhere}`)]);
  const { rest } = await startTestSidecar({ folder: elsewhere });
  expect((await rest("GET", "/connections")).status).toBe(200);
});

it("works as its document describes", async () => {
  const page = await readFile(fileURLToPath(new URL("../../../docs/store-and-backup.md", import.meta.url)), "utf8");
  const [, section = ""] = /```sh\n([\s\S]*?)```/.exec(page) ?? [];
  const lines = section.trim().split("\n");
  expect(lines.length).toBeGreaterThan(5);
  const running = await startTestSidecar();
  const env = { PATH: process.env["PATH"], LATCHKEY_CONTROL: running.control, LATCHKEY_KEY: adminKey };
  const main = fileURLToPath(new URL("../../../src/main.ts", import.meta.url));
  const pasted = lines.map((line) => line.replace("npm run -s latchkey --", `'${process.execPath}' '${main}'`));
  const child = spawn("sh", ["-e", "-c", pasted.join("\n")], { cwd: running.folder, env });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (text) => {
      said += text;
    });
  }
  expect([(await once(child, "close"))[0], said]).toEqual([0, expect.stringContaining("REMOVABLE")]);
});

describe.skipIf(lacks("postgres"))("with PostgreSQL", () => {
  const file = postgresForFile();

  it("moves everything into it and back, the same to the last bit", async () => {
    const [from, back] = [await temporaryFolder(), await temporaryFolder()];
    const before = await startTestSidecar({ folder: from });
    const secrets = await importEveryKind(before);
    const shown = await shownOf(before);
    await before.stop();
    const url = file.server.storeUrl(file.newSchema());
    const content = await contentOf(`level:${from}`);

    expect((await latchkey("store", "move", "--from", `level:${from}`, "--to", url)).code).toBe(0);
    expect(await contentOf(url)).toEqual(content);
    const shared = await startTestSidecar({ env: { LATCHKEY_STORE: url } });
    expect(await shownOf(shared)).toEqual(shown);
    await furnishMore(shared);
    await shared.stop();

    const later = await contentOf(url);
    expect(later.revision).toBeGreaterThan(content.revision);
    expect((await latchkey("store", "move", "--from", url, "--to", `level:${back}`)).code).toBe(0);
    expect(await contentOf(`level:${back}`)).toEqual(later);
    const home = await startTestSidecar({ folder: back });
    expect(await shownOf(home)).toEqual(shown);
    expect((await home.rest("GET", "/connections/more?provider_config_key=keyed")).body.credentials).toMatchObject({
      apiKey: "key-of-more",
    });
    expect(secrets.size).toBeGreaterThan(20);
    await expect(startTestSidecar({ env: { LATCHKEY_STORE: url } })).rejects.toThrow(/was moved to level:/);
  });

  const furnishMore = ({ rest }: TestSidecar) => rest("POST", "/connections", { body: keyedConnection("more") });

  it("S11 has the same hash whatever the backend, and is not restored into a used database", async () => {
    const url = file.server.storeUrl(file.newSchema());
    const running = await startTestSidecar({ env: { LATCHKEY_STORE: url } });
    await createIntegrations(running);
    await furnishMore(running);
    const backup = join(running.folder, "backup");
    const made = await latchkey("store", "backup", backup, "--json", "--address", running.control, "--key", adminKey);
    const { sha256 } = JSON.parse(made.out) as { sha256: string };

    const used = await latchkey("store", "restore", backup, "--to", url);
    expect([used.code, used.err]).toEqual([2, expect.stringContaining("is not empty, or was used before")]);
    const folder = await temporaryFolder();
    const other = file.server.storeUrl(file.newSchema());
    for (const to of [`level:${folder}`, other]) {
      expect((await latchkey("store", "restore", backup, "--to", to)).code).toBe(0);
      expect((await contentOf(to)).sha256.toString("base64")).toBe(sha256);
    }
    const scrubbed = await latchkey("store", "scrub", "--address", running.control, "--key", adminKey);
    expect(scrubbed.out).toMatch(/no damage found/);
  });

  it("leaves a store as it was that others write to while it is moved", async () => {
    const url = file.server.storeUrl(file.newSchema());
    const running = await startTestSidecar({ env: { LATCHKEY_STORE: url } });
    await createIntegrations(running);
    let isWriting = true;
    const writing = (async () => {
      for (let i = 0; isWriting; i += 1) {
        await running.rest("POST", "/connections", { body: keyedConnection(`c${i}`) });
      }
    })();
    const folder = await temporaryFolder();
    const { code, err } = await latchkey("store", "move", "--from", url, "--to", `level:${folder}`);
    isWriting = false;
    await writing;
    expect(code).toBe(1);
    expect(err).toContain("the old store is unchanged");
    expect(err).toMatch(/is in use: it was at revision \d+ and is at \d+ now/);
    expect((await running.rest("POST", "/connections", { body: keyedConnection("after") })).status).toBe(201);
  });

  it("accepts no writes from a replica that was not stopped before the move", async () => {
    const url = file.server.storeUrl(file.newSchema());
    const running = await startTestSidecar({ env: { LATCHKEY_STORE: url } });
    await createIntegrations(running);
    const folder = await temporaryFolder();
    expect((await latchkey("store", "move", "--from", url, "--to", `level:${folder}`)).code).toBe(0);
    const answer = await running.rest("POST", "/connections", { body: keyedConnection("late") });
    expect([answer.status, answer.body.error.code]).toEqual([503, "store_unavailable"]);
  });
});
