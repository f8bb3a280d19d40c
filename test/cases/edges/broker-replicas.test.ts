import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { type EdgeConnection, EdgeService } from "../../../src/gen/latchkey/v1/edge_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { type Postgres, startPostgres } from "../../support/postgres/postgres.ts";
import { startStopwatch } from "../../support/runner/stopwatch.ts";
import { createIntegrations, keyedConnection, startTestSidecar } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { edgeKey, openEdge } from "./test-edge.ts";

let postgres: Postgres | undefined;
beforeAll(async () => {
  if (!lacks("postgres")) postgres = await startPostgres();
});
afterAll(() => postgres?.stop());

it.skipIf(lacks("postgres"))("sends a change of one broker to the edges of another", async () => {
  const env = { LATCHKEY_STORE: postgres?.storeUrl("edges") ?? "" };
  const first = await startTestSidecar({ env });
  const second = await startTestSidecar({ env });
  await createIntegrations(first);
  for (const id of ["ada", "bob"]) await first.rest("POST", "/connections", { body: keyedConnection(id) });
  const { secret } = await edgeKey(first);
  const { key: made, secret: callers } = await first.client(EnvironmentService).createKey({ environment: "dev" });

  const edge = openEdge(second, secret);
  const { version, ref } = await edge.want("keyed", "ada");
  await edge.want("keyed", "bob");
  expect((await edge.wantKey(callers)).key?.id).toBe(made?.id);
  const elapsed = startStopwatch();
  await first.rest("POST", "/connections", {
    body: { ...keyedConnection("ada"), credentials: { type: "API_KEY", apiKey: "new-key" } },
  });
  const changed = await edge.next("connection");
  expect(changed.state).toMatchObject({ value: { credentials: { kind: { value: { apiKey: "new-key" } } } } });
  await first.client(ConnectionService).deleteConnection({
    ref: { environment: "dev", integration: "keyed", id: "bob" },
  });
  await first.client(EnvironmentService).revokeKey({ id: made?.id ?? "" });
  expect((await edge.next("connection")).state.case).toBe("fault");
  expect((await edge.next("key")).key).toBeUndefined();
  expect(elapsed.ms).toBeLessThan(10_000);

  // The same content has the same version in each broker.
  const moved = openEdge(first, secret, {
    edgeId: "an-edge-that-moves",
    connections: [{ ...(ref && { ref }), version: changed.version }],
  });
  await moved.next("inSync");
  expect(version).not.toEqual(changed.version);
  expect(moved.received.filter(({ message }) => message.case === "connection")).toEqual([]);

  const { edges } = await second.client(EdgeService).listEdges({});
  expect(edges).toMatchObject([{ host: "pod-1", environment: "dev", connections: 2, keys: 1 }]);
});

it.skipIf(lacks("postgres"))("keeps the streams of edges while the database is away", async () => {
  const sidecar = await startTestSidecar({ env: { LATCHKEY_STORE: postgres?.storeUrl("away") ?? "" } });
  await createIntegrations(sidecar);
  await sidecar.rest("POST", "/connections", { body: keyedConnection("ada") });
  const { secret } = await edgeKey(sidecar);
  const edge = openEdge(sidecar, secret);
  const { ref, version } = await edge.want("keyed", "ada");
  const integration = await edge.next("integration");
  await postgres?.shutDown();
  onTestFinished(() => postgres?.start());
  await expect
    .poll(async () => (await edge.wantKey("lk_a-key-that-is-not-there")).fault?.code)
    .toBe("store_unavailable");
  // One that comes back is told later what has changed.
  const moved = openEdge(sidecar, secret, {
    edgeId: "an-edge-that-moves",
    connections: [{ ...(ref && { ref }), version }],
    integrations: [{ name: integration.key, version: integration.version }],
  });
  await moved.next("inSync");
  await postgres?.start();
  await expect.poll(async () => (await edge.wantKey("lk_a-key-that-is-not-there")).fault).toBeUndefined();
  const { status } = await sidecar.rest("POST", "/connections", {
    body: { ...keyedConnection("ada"), credentials: { type: "API_KEY", apiKey: "new-key" } },
  });
  expect(status).toBe(201);
  for (const one of [edge, moved]) {
    await one.next("connection", ({ state }) => apiKeyIn(state) === "new-key");
  }
});

function apiKeyIn(state: EdgeConnection["state"]): string | undefined {
  const kind = state.case === "live" ? state.value.credentials?.kind : undefined;
  return kind?.case === "apiKey" ? kind.value.apiKey : undefined;
}
