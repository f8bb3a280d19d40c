/** A PostgreSQL server that is put back to an older copy of its data, while replicas remember more than it holds. */
import { execFileSync } from "node:child_process";
import { renameSync, rmSync } from "node:fs";
import { describe, expect, it, onTestFinished } from "vitest";
import { ConnectionService } from "../../src/gen/latchkey/v1/connection_pb.ts";
import { ProviderService } from "../../src/gen/latchkey/v1/provider_pb.ts";
import { WatchMarker_Kind } from "../../src/gen/latchkey/v1/watch_pb.ts";
import { startApplication } from "../support/peers/application.ts";
import { startProvider } from "../support/peers/provider.ts";
import { type Postgres, startPostgres } from "../support/postgres/postgres.ts";
import { openWire } from "../support/postgres/wire.ts";
import { keyedConnection, startTestSidecar, type TestSidecar } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";

const ghosts = Array.from({ length: 10 }, (_, i) => `ghost${i}`);
const changed = Array.from({ length: 10 }, (_, i) => `changed${i}`);
const noticed = { timeout: 30_000, interval: 50 };

describe.skipIf(lacks("postgres"))("an older copy of the data in PostgreSQL's place", () => {
  async function start() {
    const server = await startPostgres();
    onTestFinished(() => server.stop());
    const wire = await openWire(server.port);
    onTestFinished(() => wire.close());
    const application = await startApplication();
    const provider = await startProvider();
    const env = {
      LATCHKEY_FORWARD_URL: application.url,
      LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${provider.port}`,
    };
    const replica = (parameters = {}) =>
      startTestSidecar({ env: { ...env, LATCHKEY_STORE: server.storeUrl("rolled", parameters) } });
    const direct = await replica();
    await direct.client(ProviderService).createProvider({
      provider: {
        name: "here",
        auth: { case: "apiKey", value: { header: "x-api-key" } },
        proxy: { baseUrl: `https://127.0.0.1:${provider.port}` },
      },
    });
    await direct.rest("POST", "/integrations", { body: { unique_key: "keyed", provider: "here" } });
    const cutOff = await replica({ port: `${wire.port}` });
    return { server, wire, provider, direct, cutOff, replica };
  }

  /** Takes a copy while the server is down; the function returned puts it back, while it is down again. */
  async function copyOf(server: Postgres): Promise<() => Promise<void>> {
    const copy = `${server.dataFolder}-copy`;
    await server.shutDown();
    // Keeps the owner of the files.
    execFileSync("cp", ["-a", server.dataFolder, copy]);
    await server.start();
    return async () => {
      await server.shutDown();
      renameSync(server.dataFolder, `${server.dataFolder}-newer`);
      renameSync(copy, server.dataFolder);
      rmSync(`${server.dataFolder}-newer`, { recursive: true });
      await server.start();
    };
  }

  const writable = ({ sidecar }: TestSidecar) => sidecar.broker.storeStatus().writable;
  const revisionOf = ({ sidecar }: TestSidecar) => sidecar.broker.storeStatus().revision;

  async function proxied({ rest }: TestSidecar, id: string): Promise<number> {
    const headers = { "connection-id": id, "provider-config-key": "keyed" };
    return (await rest("GET", "/proxy/", { headers })).status;
  }

  /** The first marker of a watch from a revision. */
  async function firstMarker(replica: TestSidecar, fromRevision: number): Promise<WatchMarker_Kind | undefined> {
    const ending = new AbortController();
    const request = { environment: "dev", fromRevision: BigInt(fromRevision) };
    const options = { signal: ending.signal };
    for await (const { event } of replica.client(ConnectionService).watchConnections(request, options)) {
      ending.abort();
      return event.case === "marker" ? event.value.kind : undefined;
    }
    return undefined;
  }

  it("is noticed by a replica that was cut off, although another has written past what it saw", async () => {
    const { server, wire, provider, direct, cutOff, replica } = await start();
    for (const id of changed) await direct.rest("POST", "/connections", { body: keyedConnection(id) });
    const putBack = await copyOf(server);
    await expect.poll(() => [direct, cutOff].every(writable), noticed).toBe(true);

    // Lost later on: connections that are new, and keys that were replaced.
    for (const id of ghosts) {
      expect((await direct.rest("POST", "/connections", { body: keyedConnection(id) })).status).toBe(201);
    }
    for (const id of changed) {
      const credentials = { type: "API_KEY", apiKey: `lost-key-of-${id}` };
      await direct.rest("POST", "/connections", { body: { ...keyedConnection(id), credentials } });
    }
    await expect.poll(() => revisionOf(cutOff) === revisionOf(direct), noticed).toBe(true);
    for (const id of [...ghosts, ...changed]) expect(await proxied(cutOff, id)).toBe(200);
    expect(provider.received()).toContain("lost-key-of-changed0");
    const seen = revisionOf(cutOff);

    wire.cut();
    await direct.stop();
    await putBack();
    const later = await replica();
    for (let i = 0; revisionOf(later) <= seen + 20; i += 1) {
      await later.rest("POST", "/connections", { body: keyedConnection(`later${i}`) });
    }
    const receivedBefore = provider.received().length;
    wire.mend();
    await expect.poll(() => writable(cutOff), noticed).toBe(true);
    await expect
      .poll(
        async () => (await Promise.all(ghosts.map((id) => proxied(cutOff, id)))).every((status) => status === 404),
        noticed,
      )
      .toBe(true);
    for (const id of changed) expect(await proxied(cutOff, id)).toBe(200);
    const received = provider.received().slice(receivedBefore);
    expect(received).toContain("key-of-changed0");
    expect(await proxied(cutOff, "later0")).toBe(200);
    const list = async ({ rest }: TestSidecar) =>
      (await rest("GET", "/connections")).body.connections
        .map((one: { connection_id: string }) => one.connection_id)
        .toSorted();
    expect(await list(cutOff)).toEqual(await list(later));
    const lastly = provider.received().length;
    for (const id of changed) expect(await proxied(cutOff, id)).toBe(200);
    expect(provider.received().slice(lastly)).not.toContain("lost-key");
    expect(cutOff.logged.join("")).toContain("reset to an older state");

    // A watch that saw lost changes starts again with a snapshot, at any replica.
    await expect.poll(() => firstMarker(later, seen), noticed).toBe(WatchMarker_Kind.SNAPSHOT_BEGIN);
    expect(await firstMarker(cutOff, seen)).toBe(WatchMarker_Kind.SNAPSHOT_BEGIN);
    // Watches resume from changes after the loss as usual.
    for (const id of ["more", "most"]) await cutOff.rest("POST", "/connections", { body: keyedConnection(id) });
    expect(await firstMarker(cutOff, revisionOf(cutOff))).toBe(WatchMarker_Kind.RESUMED);
  });

  it("is noticed by replicas that were idle, before any of them commits", async () => {
    const { server, wire, direct, cutOff } = await start();
    const putBack = await copyOf(server);
    await expect.poll(() => [direct, cutOff].every(writable), noticed).toBe(true);
    for (const id of ghosts) await direct.rest("POST", "/connections", { body: keyedConnection(id) });
    await expect.poll(() => revisionOf(cutOff) === revisionOf(direct), noticed).toBe(true);
    for (const id of ghosts) expect(await proxied(cutOff, id)).toBe(200);
    wire.cut();
    await putBack();
    await expect.poll(() => writable(direct), noticed).toBe(true);
    // Exactly as many commits as were lost: the numbers alone are the same.
    while (revisionOf(direct) < revisionOf(cutOff)) {
      await direct.rest("POST", "/connections", { body: keyedConnection(`new${revisionOf(direct)}`) });
    }
    wire.mend();
    await expect.poll(() => proxied(cutOff, "ghost0"), noticed).toBe(404);
    for (const id of ghosts) expect(await proxied(cutOff, id)).toBe(404);
  });
});
