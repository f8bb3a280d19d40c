import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { SystemService } from "../../../src/gen/latchkey/v1/system_pb.ts";
import { type Postgres, startPostgres } from "../../support/postgres/postgres.ts";
import { openWire } from "../../support/postgres/wire.ts";
import { startStopwatch } from "../../support/runner/stopwatch.ts";
import {
  createIntegrations,
  keyedConnection,
  secretKey,
  startTestSidecar,
  type TestSidecar,
  temporaryFolder,
} from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { launch } from "../../support/sidecar/process.ts";

const at = (id: string) => `/connections/${id}?provider_config_key=keyed`;
const soon = { interval: 20 };

describe.skipIf(lacks("postgres"))("replicas over PostgreSQL", () => {
  let server: Postgres;
  let schemas = 0;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  async function replicas(count: number): Promise<TestSidecar[]> {
    schemas += 1;
    const env = { LATCHKEY_STORE: server.storeUrl(`replicas_${schemas}`) };
    return Promise.all(Array.from({ length: count }, () => startTestSidecar({ env })));
  }

  it("start at once on an empty database, and serve the same", async () => {
    const all = await replicas(3);
    const [one, two, three] = all;
    if (one === undefined || two === undefined || three === undefined) throw new Error("not all started");
    await createIntegrations(one);
    expect((await one.rest("POST", "/connections", { body: keyedConnection("ada") })).status).toBe(201);
    for (const { rest } of [two, three]) {
      expect((await rest("GET", at("ada"))).body).toMatchObject({ credentials: { apiKey: "key-of-ada" } });
    }
    // One replica has it cached, and the other changes it.
    const patch = { connection_id: "ada", provider_config_key: "keyed", metadata: { calendar: "primary" } };
    expect((await three.rest("PATCH", "/connection/metadata", { body: patch })).status).toBe(200);
    await expect
      .poll(async () => (await two.rest("GET", at("ada"))).body.metadata, soon)
      .toEqual({ calendar: "primary" });
    expect((await two.rest("DELETE", at("ada"))).status).toBe(200);
    await expect.poll(async () => (await one.rest("GET", at("ada"))).status, soon).toBe(404);
  });

  it("know of each other, and of what each does, until one stops", async () => {
    const all = await replicas(2);
    const [one, two] = all;
    if (one === undefined || two === undefined) throw new Error("not all started");
    const listed = async (at: TestSidecar) => (await at.client(SystemService).listReplicas({})).replicas;
    await expect.poll(async () => (await listed(one)).length, soon).toBe(2);
    await one.sidecar.broker.keepHouse();
    await two.sidecar.broker.keepHouse();
    const duties = (await Promise.all(all.map(listed))).flatMap((found) =>
      found.filter(({ answering }) => answering).flatMap((self) => self.duties),
    );
    expect(duties.filter((duty) => duty === "housekeeping")).toHaveLength(1);
    const shares = async () =>
      (await Promise.all(all.map(listed))).map((found) => found.find((self) => self.answering));
    await expect
      .poll(async () => (await shares()).map((self) => [self?.partitions, self?.duties.includes("deliveries")]), soon)
      .toEqual([32, 32].map((partitions) => [partitions, true]));
    await two.stop();
    expect(await listed(one)).toHaveLength(1);
  });

  /** A replica with connections that it has not used yet, and the network to its database. */
  async function apart() {
    const [one] = await replicas(1);
    if (one === undefined) throw new Error("it has not started");
    await createIntegrations(one);
    const ids = ["ada", "bob", "eve"];
    for (const id of ids) await one.rest("POST", "/connections", { body: keyedConnection(id) });
    const wire = await openWire(server.port);
    onTestFinished(() => wire.close());
    const url = server.storeUrl(`replicas_${schemas}`).replace(`:${server.port}/`, `:${wire.port}/`);
    const other = await startTestSidecar({ env: { LATCHKEY_STORE: url } });
    /** The matched connection or the reason for none, and the time in milliseconds. */
    const shown = async (id: string) => {
      const elapsed = startStopwatch();
      const { status, body, headers } = await other.rest("GET", at(id));
      const came = status === 200 ? body.credentials.apiKey : `${status} ${body.error.code}`;
      return { came, ms: elapsed.ms, retryAfter: headers.get("retry-after") };
    };
    return { wire, other, shown };
  }

  // Reads wait for about a second: a busy machine may take that long to connect again.
  it("answer every kind of read though the database was away for a moment", { retry: 2 }, async () => {
    const { wire, other, shown } = await apart();
    const calls = other.client(ConnectionService);
    const setup = other.client(EnvironmentService);
    const environment = "dev";
    const ref = (id: string) => ({ environment, integration: "keyed", id });
    // Longer than a broken connection alone: until the next look at the server, all reads are refused.
    wire.cut();
    await expect.poll(async () => (await fetch(`${other.ops}/readyz`)).status, { interval: 10 }).toBe(503);
    setTimeout(() => wire.mend(), 100);
    const reads = await Promise.allSettled([
      calls.getConnection({ ref: ref("ada"), includeCredentials: true }),
      calls.getConnection({ ref: ref("bob") }),
      calls.listConnections({ environment }),
      setup.getEnvironment({ name: environment }),
      other.client(LogService).listLogs({ environment }),
      shown("eve"),
    ]);
    expect(reads.map(({ status }) => status)).toEqual(reads.map(() => "fulfilled"));
    expect(reads.at(-1)).toMatchObject({ value: { came: "key-of-eve" } });
    // A key that is not in memory may have been made by another replica.
    wire.cut();
    setTimeout(() => wire.mend(), 100);
    const stranger = other.client(ConnectionService, "lk_unknown").listConnections({ environment });
    await expect(stranger).rejects.toThrow("the key is not known");
  });

  it("show a connection that is not in memory though the way to the database broke a moment ago", async () => {
    const { wire, shown } = await apart();
    wire.cut();
    setTimeout(() => wire.mend(), 150);
    const all = await Promise.all(["ada", "bob", "eve", "ada"].map(shown));
    expect(all.map(({ came }) => came)).toEqual(["key-of-ada", "key-of-bob", "key-of-eve", "key-of-ada"]);
  });

  it("report within about a second that the database is away, and continue from memory", async () => {
    const { wire, shown } = await apart();
    expect((await shown("ada")).came).toBe("key-of-ada");
    wire.cut();
    const [bob, ada] = await Promise.all([shown("bob"), shown("ada")]);
    expect(bob).toMatchObject({ came: "503 store_unavailable", retryAfter: "1" });
    expect(bob.ms).toBeLessThan(2_000);
    expect(ada.came).toBe("key-of-ada");
    // Other callers do not wait for a replica that is known to be away.
    const eve = await shown("eve");
    expect([eve.came, eve.ms < 500]).toEqual(["503 store_unavailable", true]);
    wire.mend();
    await expect.poll(async () => (await shown("bob")).came).toBe("key-of-bob");
  });

  it("learn of a revoked key within a second", async () => {
    const [one, two] = await replicas(2);
    if (one === undefined || two === undefined) throw new Error("not all started");
    const { EnvironmentService } = await import("../../../src/gen/latchkey/v1/environment_pb.ts");
    const { secret, key } = await one.client(EnvironmentService).createKey({ environment: "dev" });
    const status = async () => (await two.rest("GET", "/integrations", { key: secret })).status;
    await expect.poll(status, soon).toBe(200);
    await one.client(EnvironmentService).revokeKey({ id: key?.id ?? "" });
    await expect.poll(status, soon).toBe(401);
  });

  it("resume on another replica the watch of one that ended", async () => {
    const [one, two] = await replicas(2);
    if (one === undefined || two === undefined) throw new Error("not all started");
    await createIntegrations(one);
    await one.rest("POST", "/connections", { body: keyedConnection("before") });
    const { revision } = (
      await one.client(ConnectionService).getConnection({
        ref: { environment: "dev", integration: "keyed", id: "before" },
      })
    ).connection ?? { revision: 0n };
    await one.rest("POST", "/connections", { body: keyedConnection("after") });
    const seen: string[] = [];
    const request = { environment: "dev", fromRevision: revision };
    for await (const { event } of two.client(ConnectionService).watchConnections(request)) {
      if (event.case === "marker") seen.push(`marker ${event.value.kind}`);
      else if (event.case === "put") seen.push(event.value.ref?.id ?? "");
      if (seen.includes("after")) break;
    }
    // No snapshot in between.
    expect(seen).toHaveLength(2);
  });

  it("S16 answer from memory while the database is away, refuse writes, and recover within five seconds", async () => {
    const [one] = await replicas(1);
    if (one === undefined) throw new Error("it did not start");
    await createIntegrations(one);
    for (const id of ["warm", "cold"]) await one.rest("POST", "/connections", { body: keyedConnection(id) });
    expect((await one.rest("GET", at("warm"))).status).toBe(200);
    await server.crash();

    expect((await one.rest("POST", "/connections", { body: keyedConnection("new") })).status).toBe(503);
    expect((await one.rest("GET", at("warm"))).body).toMatchObject({ credentials: { apiKey: "key-of-warm" } });
    const cold = await one.rest("GET", at("cold"));
    expect({ status: cold.status, code: cold.body.error.code }).toEqual({ status: 503, code: "store_unavailable" });
    const readyz = async () => (await fetch(`${one.ops}/readyz`)).text();
    await expect.poll(readyz, soon).toMatch(/PostgreSQL at 127\.0\.0\.1:\d+/);
    expect((await fetch(`${one.ops}/livez`)).status).toBe(200);

    await server.start();
    const write = async () => (await one.rest("POST", "/connections", { body: keyedConnection("new") })).status;
    await expect.poll(write, { interval: 100 }).toBe(201);
    expect((await one.rest("GET", at("cold"))).status).toBe(200);
    expect((await one.metric("latchkey_unhandled_errors_total")) ?? 0).toBe(0);
  });

  it("wait at start for a database that is away, unready, without its password anywhere", async () => {
    const url = server.storeUrl("waiting").replace("postgres@", "postgres:hunter-the-password@");
    await server.shutDown();
    const folder = await temporaryFolder();
    const waiting = launch(["serve"], { folder, env: { LATCHKEY_STORE: url } });
    await waiting.says("the store cannot be opened yet");
    expect((await fetch(`${waiting.address("ops")}/readyz`)).status).toBe(503);
    await server.start();
    await waiting.says('"phase":"ready"');
    const answer = await fetch(`${waiting.address("data")}/integrations`, {
      headers: { authorization: `Bearer ${secretKey}` },
    });
    expect(answer.status).toBe(200);
    waiting.child.kill("SIGTERM");
    expect(await waiting.exited).toBe(0);
    expect(waiting.stdout() + waiting.stderr()).not.toContain("hunter");
  });

  it("need a control key of their own choosing", async () => {
    const env = { LATCHKEY_STORE: server.storeUrl("keyless"), LATCHKEY_ADMIN_KEY: undefined };
    const refused = launch(["serve"], { folder: await temporaryFolder(), env });
    expect(await refused.exited).toBe(78);
    expect(refused.stderr()).toMatch(/LATCHKEY_ADMIN_KEY is required with PostgreSQL/);
  });
});
