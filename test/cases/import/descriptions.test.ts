import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ConnectionImportSchema, ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { type Postgres, startPostgres } from "../../support/postgres/postgres.ts";
import { adminKey, secretKey, temporaryFolder } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { launch, serveInProcess } from "../../support/sidecar/process.ts";
import { hourMs, provider, startWatching } from "../channels/channels.ts";

type Watching = Awaited<ReturnType<typeof startWatching>>;

/** SHA-256 of `nango.emailAddressHash.v1:ada@example.com`. */
const adaHash = "de53f0ae";

const hashIn = async ({ sidecar }: Pick<Watching, "sidecar">, id: string): Promise<string | undefined> =>
  (await sidecar.rest("GET", `/connections/${id}?provider_config_key=${provider}`)).body.connection_config
    .emailAddressHash;

const described = async (watching: Pick<Watching, "sidecar">, id: string) => {
  await expect.poll(() => hashIn(watching, id), { interval: 20 }).toMatch(/^[0-9a-f]{64}$/);
  return hashIn(watching, id);
};

const asked = ({ sandbox }: Watching): number => sandbox.seen().requests.calendar ?? 0;
const fail = (status: number, times: number, headers = {}) => ({
  answers: { calendar: [{ kind: "error" as const, status, error: "out_of_order", headers, times }] },
});

const item = (watching: Watching, id: string, user = "ada@example.com") => {
  const { access_token, refresh_token } = watching.sandbox.grant({ user });
  return create(ConnectionImportSchema, {
    ...{ environment: "dev", integration: provider, id },
    credentials: { kind: { case: "oauth2", value: { accessToken: access_token, refreshToken: refresh_token } } },
  });
};

/** A notification about ada's calendar over a channel that latchkey does not know. */
async function notify({ sidecar, application }: Watching): Promise<{ readonly connectionId?: string }> {
  const { body } = await sidecar.rest("GET", `/integrations/${provider}?include=webhook`);
  const before = application.seen.length;
  const answer = await fetch(body.data.webhook_url.replace(/^https?:\/\/[^/]+/, sidecar.data), {
    method: "POST",
    headers: {
      "x-cal-channel-id": "made-elsewhere",
      "x-cal-resource-state": "exists",
      "x-cal-resource-uri": "https://provider.example/v3/calendars/ada%40example.com/events?alt=json",
      "x-cal-message-number": String(before + 1),
    },
  });
  expect(answer.status).toBe(200);
  await expect.poll(() => application.seen.length).toBeGreaterThan(before);
  return JSON.parse(application.seen[before]?.body ?? "{}");
}

describe("an imported connection", () => {
  it("is described by its provider soon after, and its notifications match", async () => {
    const watching = await startWatching();
    await watching.connect("ada");
    expect(await described(watching, "ada")).toMatch(new RegExp(`^${adaHash}`));
    expect(await notify(watching)).toMatchObject({ connectionId: "ada" });
    expect(asked(watching)).toBe(1);
    expect(await watching.sidecar.metric('latchkey_descriptions_total{outcome="complete"}')).toBe(1);
    await expect.poll(() => watching.sidecar.metric("latchkey_descriptions_waiting")).toBe(0);
  });

  it("is described after a batch, a stream and a file of them", async () => {
    const watching = await startWatching();
    const client = watching.sidecar.client(ConnectionService);
    await client.batchImportConnections({ connections: [item(watching, "batch-0"), item(watching, "batch-1")] });
    async function* stream() {
      for (const id of ["stream-0", "stream-1"]) yield { connection: item(watching, id) };
    }
    for await (const { result } of client.streamImportConnections(stream())) expect(result?.problem).toBeUndefined();
    const file = join(await temporaryFolder(), "connections.ndjson");
    const { access_token } = watching.sandbox.grant();
    const line = {
      provider_config_key: provider,
      connection_id: "file-0",
      credentials: { type: "OAUTH2", access_token },
    };
    await writeFile(file, `${JSON.stringify(line)}\n`);
    const cli = launch(["connections", "import", file, "-e", "dev"], {
      folder: await temporaryFolder(),
      env: { LATCHKEY_CONTROL: watching.sidecar.control, LATCHKEY_CONTROL_KEY: adminKey },
    });
    expect(await cli.exited, cli.stderr()).toBe(0);
    for (const id of ["batch-0", "batch-1", "stream-0", "stream-1", "file-0"]) await described(watching, id);
  });

  it("keeps the values that its importer named, also in an earlier import", async () => {
    const watching = await startWatching();
    await watching.connect("ada", { more: { connection_config: { emailAddressHash: "mine" } } });
    await watching.connect("ada");
    await watching.connect("bob", { user: "bob@example.com", more: { metadata: { own: 1 } } });
    const hash = await described(watching, "bob");
    expect(await hashIn(watching, "ada")).toBe("mine");
    expect(await watching.metadata("bob")).toEqual({ own: 1 });
    // A value that the provider reported is removed with the credentials it was requested with.
    await watching.connect("bob", { user: "ada@example.com" });
    await expect.poll(() => hashIn(watching, "bob")).toMatch(new RegExp(`^${adaHash}`));
    await watching.connect("bob", { user: "bob@example.com", more: { connection_config: { emailAddressHash: hash } } });
    await watching.connect("bob", { user: "ada@example.com" });
    await watching.sidecar.sidecar.broker.describeImported();
    expect(await hashIn(watching, "bob")).toBe(hash);
  });

  it("is retried after a failure, with growing delays and a limit", async () => {
    const watching = await startWatching();
    const { sandbox, clock, sidecar } = watching;
    const run = () => sidecar.sidecar.broker.describeImported();
    sandbox.behave(fail(503, 100));
    await watching.connect("ada");
    await run();
    expect(asked(watching)).toBe(1);
    clock.pass(4_000);
    await run();
    expect(asked(watching)).toBe(1);
    clock.pass(2_000);
    await run();
    expect(asked(watching)).toBe(2);
    expect(await sidecar.metric("latchkey_descriptions_waiting")).toBe(1);
    for (let day = 0; day < 40; day += 1) {
      clock.pass(24 * hourMs);
      await run();
    }
    expect(asked(watching)).toBe(8);
    expect(await sidecar.metric('latchkey_descriptions_total{outcome="given_up"}')).toBe(1);
    await expect.poll(() => sidecar.metric("latchkey_descriptions_waiting")).toBe(0);
    const { logs } = await sidecar
      .client(LogService)
      .listLogs({ environment: "dev", operation: "connection.describe" });
    expect(logs).toHaveLength(1);
    expect(sidecar.logged.filter((one) => one.includes("did not describe an imported connection")).length).toBe(2);
    expect((await sidecar.rest("GET", `/connections/ada?provider_config_key=${provider}`)).body.errors).toEqual([]);
    // A new import asks the provider again.
    sandbox.behave({ answers: { calendar: [] } });
    await watching.connect("ada");
    await described(watching, "ada");
  });

  it("is described with refreshed credentials if the provider refuses the imported ones", async () => {
    const watching = await startWatching();
    const { refresh_token } = watching.sandbox.grant();
    const { status } = await watching.sidecar.rest("POST", "/connections", {
      body: {
        provider_config_key: provider,
        connection_id: "ada",
        credentials: { type: "OAUTH2", access_token: "of-yesterday", refresh_token },
      },
    });
    expect(status).toBe(201);
    await described(watching, "ada");
  });

  it("waits as long as the provider demands", async () => {
    const watching = await startWatching();
    const { sandbox, clock, sidecar } = watching;
    sandbox.behave(fail(429, 1, { "retry-after": "600" }));
    await watching.connect("ada");
    await sidecar.sidecar.broker.describeImported();
    await watching.connect("bob", { user: "bob@example.com" });
    clock.pass(500_000);
    await sidecar.sidecar.broker.describeImported();
    expect(asked(watching)).toBe(1);
    clock.pass(101_000);
    await described(watching, "ada");
    await described(watching, "bob");
  });

  it("is forgotten with its deletion", async () => {
    const watching = await startWatching();
    watching.sandbox.behave(fail(503, 1));
    await watching.connect("ada");
    await watching.sidecar.sidecar.broker.describeImported();
    expect((await watching.remove("ada")).status).toBe(200);
    watching.clock.pass(hourMs);
    await watching.sidecar.sidecar.broker.describeImported();
    await expect.poll(() => watching.sidecar.metric("latchkey_descriptions_waiting")).toBe(0);
    expect(asked(watching)).toBe(1);
  });
});

describe("many imported connections", () => {
  it("are requested a few at a time", async () => {
    const watching = await startWatching();
    const { sandbox, sidecar } = watching;
    sandbox.behave({ answers: { calendar: [{ kind: "ordinary", holdMs: 50 }] } });
    const connections = Array.from({ length: 100 }, (_, i) => item(watching, `c${i}`));
    const since = performance.now();
    await sidecar.client(ConnectionService).batchImportConnections({ connections });
    await expect.poll(() => sidecar.metric("latchkey_descriptions_waiting"), { interval: 5 }).toBeGreaterThan(50);
    await expect.poll(() => asked(watching)).toBe(100);
    const seconds = (performance.now() - since) / 1_000;
    expect(asked(watching) / seconds).toBeLessThan(25);
    await described(watching, "c99");
  });

  it("are requested by the next process after a kill", async () => {
    const folder = join(await temporaryFolder(), "store");
    await mkdir(folder);
    const watching = await startWatching({ folder });
    await watching.sidecar.stop();
    const config = join(await temporaryFolder(), "latchkey.yaml");
    await writeFile(config, watching.file);
    const child = await serveInProcess({ folder, env: { ...watching.env, LATCHKEY_CONFIG: config } });
    watching.sandbox.behave({ answers: { calendar: [{ kind: "ordinary", holdMs: 30_000 }] } });
    for (const id of ["ada", "again"]) {
      const { access_token } = watching.sandbox.grant();
      const answer = await fetch(`${child.address("data")}/connections`, {
        method: "POST",
        headers: { authorization: `Bearer ${secretKey}`, "content-type": "application/json" },
        body: JSON.stringify({
          provider_config_key: provider,
          connection_id: id,
          credentials: { type: "OAUTH2", access_token },
        }),
      });
      expect(answer.status).toBe(201);
    }
    await expect.poll(() => asked(watching)).toBe(2);
    child.child.kill("SIGKILL");
    await child.exited;
    watching.sandbox.behave({ answers: { calendar: [] } });
    // The killed process used its own clock, which is slightly ahead.
    watching.clock.pass(60_000);
    await watching.restart();
    await described(watching, "ada");
    await described(watching, "again");
  });
});

describe.skipIf(lacks("postgres"))("replicas over PostgreSQL", () => {
  let server: Postgres;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  it("ask once about each imported connection", async () => {
    const watching = await startWatching({ env: { LATCHKEY_STORE: server.storeUrl("descriptions") } });
    const other = await watching.start();
    const connections = Array.from({ length: 20 }, (_, i) => item(watching, `c${i}`));
    await watching.sidecar.client(ConnectionService).batchImportConnections({ connections });
    await Promise.all([watching.sidecar, other].map(({ sidecar }) => sidecar.broker.describeImported()));
    for (const { id } of connections) await described(watching, id);
    expect(asked(watching)).toBe(20);
  });
});

describe("the scopes of an imported connection", () => {
  const scopes = async ({ sidecar }: Watching, id: string, raw: unknown) => {
    const { status } = await sidecar.rest("POST", "/connections", {
      body: {
        provider_config_key: provider,
        connection_id: id,
        credentials: { type: "OAUTH2", access_token: "at", raw },
      },
    });
    expect(status).toBe(201);
    return (await sidecar.rest("GET", `/connections/${id}?provider_config_key=${provider}`)).body.granted_scopes;
  };

  it("are read from the provider's answer, as text or as a list", async () => {
    const watching = await startWatching();
    expect(await scopes(watching, "spaces", { scope: "calendar email" })).toEqual(["calendar", "email"]);
    expect(await scopes(watching, "commas", { scope: "calendar,email" })).toEqual(["calendar", "email"]);
    expect(await scopes(watching, "list", { scope: ["calendar", "email"] })).toEqual(["calendar", "email"]);
    expect(await scopes(watching, "none", { scope: 7 })).toEqual([]);
    expect(await scopes(watching, "null", { scope: null })).toEqual([]);
  });
});
