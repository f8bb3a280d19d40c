import { expect, it } from "vitest";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import {
  createIntegrations,
  keyedConnection,
  secretKey,
  startTestSidecar,
  type TestSidecar,
} from "../../support/sidecar/harness.ts";
import { digestOf, edgeKey, openEdge } from "./test-edge.ts";

async function prepared(): Promise<{ sidecar: TestSidecar; key: string }> {
  const sidecar = await startTestSidecar();
  await createIntegrations(sidecar);
  for (const id of ["ada", "bob"]) {
    const { status } = await sidecar.rest("POST", "/connections", { body: keyedConnection(id) });
    expect(status).toBe(201);
  }
  const { secret } = await edgeKey(sidecar);
  return { sidecar, key: secret };
}

const ref = (id: string, integration = "keyed") => ({ environment: "dev", integration, id });

it("answers a request for a connection with its provider, its integration and its credentials", async () => {
  const { sidecar, key } = await prepared();
  const edge = openEdge(sidecar, key);
  const welcome = await edge.next("welcome");
  expect(welcome.environment).toBe("dev");
  await edge.next("inSync");
  const { state, version } = await edge.want("keyed", "ada");
  expect(version).toHaveLength(16);
  expect(state).toMatchObject({
    case: "live",
    value: { credentials: { kind: { case: "apiKey", value: { apiKey: "key-of-ada" } } }, isRenewable: false },
  });
  expect(edge.received.map(({ message }) => message.case)).toEqual([
    "welcome",
    "inSync",
    "provider",
    "integration",
    "connection",
  ]);
  const provider = await edge.next("provider");
  expect(provider.provider?.proxy?.baseUrl).not.toBe("");
  // The second connection needs neither again.
  await edge.want("keyed", "bob");
  expect(edge.received).toHaveLength(6);
});

it("sends changed credentials to the edges that follow the connection, and to no other", async () => {
  const { sidecar, key } = await prepared();
  const [first, second] = [openEdge(sidecar, key), openEdge(sidecar, key)];
  const before = await first.want("keyed", "ada");
  await second.want("keyed", "bob");
  await sidecar.rest("POST", "/connections", {
    body: { ...keyedConnection("ada"), credentials: { type: "API_KEY", apiKey: "new-key" } },
  });
  const after = await first.next("connection");
  expect(after.requestId).toBe(0n);
  expect(after.version).not.toEqual(before.version);
  expect(after.state).toMatchObject({ value: { credentials: { kind: { value: { apiKey: "new-key" } } } } });
  await second.want("keyed", "bob");
  expect(second.received.filter(({ message }) => message.case === "connection")).toHaveLength(2);
});

it("does not send metadata and tags, nor their changes", async () => {
  const { sidecar, key } = await prepared();
  const edge = openEdge(sidecar, key);
  const { state } = await edge.want("keyed", "ada");
  const connections = sidecar.client(ConnectionService);
  await connections.updateMetadata({ ref: ref("ada"), metadata: { plan: "gold" } });
  await connections.updateConnection({
    connection: { ref: ref("ada"), tags: { team: "red" } },
    updateMask: { paths: ["tags"] },
  });
  const later = await edge.want("keyed", "ada");
  expect(later.state).toEqual(state);
  expect(JSON.stringify(state, (_, value) => (typeof value === "bigint" ? String(value) : value))).not.toContain(
    "gold",
  );
  expect(edge.received.filter(({ message }) => message.case === "connection")).toHaveLength(2);
});

it("says at once that a connection is gone, and that it is there again", async () => {
  const { sidecar, key } = await prepared();
  const edge = openEdge(sidecar, key);
  const missing = await edge.want("keyed", "nobody");
  expect(missing.state).toMatchObject({ case: "fault", value: { code: "unknown_connection" } });
  await edge.want("keyed", "ada");
  await sidecar.client(ConnectionService).deleteConnection({ ref: ref("ada") });
  const gone = await edge.next("connection", (one) => one.requestId === 0n);
  expect(gone.ref?.id).toBe("ada");
  expect(gone.state).toMatchObject({ case: "fault", value: { code: "unknown_connection" } });
  await sidecar.rest("POST", "/connections", { body: keyedConnection("nobody") });
  const made = await edge.next("connection", (one) => one.requestId === 0n);
  expect(made.state.case).toBe("live");
  expect(made.ref?.id).toBe("nobody");
});

it("sends nothing more of a connection that the edge has dropped", async () => {
  const { sidecar, key } = await prepared();
  const edge = openEdge(sidecar, key);
  await edge.want("keyed", "ada");
  edge.send({ case: "dropConnection", value: { integration: "keyed", id: "ada" } });
  await edge.want("keyed", "bob");
  await sidecar.client(ConnectionService).deleteConnection({ ref: ref("ada") });
  await sidecar.client(ConnectionService).deleteConnection({ ref: ref("bob") });
  const gone = await edge.next("connection", (one) => one.requestId === 0n);
  expect(gone.ref?.id).toBe("bob");
});

it("answers what a key may do, and says when it is created, changed or revoked", async () => {
  const { sidecar, key } = await prepared();
  const environments = sidecar.client(EnvironmentService);
  const edge = openEdge(sidecar, key);
  const known = await edge.wantKey(secretKey);
  expect(known.key).toMatchObject({ environment: "dev" });
  expect(Buffer.from(known.digest)).toEqual(digestOf(secretKey));
  const unknown = await edge.wantKey("lk_nobody");
  expect(unknown.key).toBeUndefined();
  const { key: made, secret } = await environments.createKey({ environment: "dev" });
  const found = await edge.wantKey(secret);
  expect(found.key?.id).toBe(made?.id);
  await environments.revokeKey({ id: made?.id ?? "" });
  const revoked = await edge.next("key", (one) => one.requestId === 0n);
  expect(Buffer.from(revoked.digest)).toEqual(digestOf(secret));
  expect(revoked.key).toBeUndefined();
});

it("gives an edge nothing of another environment", async () => {
  const { sidecar, key } = await prepared();
  const environments = sidecar.client(EnvironmentService);
  await environments.createEnvironment({ name: "prod" });
  const { secret } = await environments.createKey({ environment: "prod" });
  const edge = openEdge(sidecar, key);
  expect((await edge.wantKey(secret)).key).toBeUndefined();
  edge.send({
    case: "wantConnection",
    value: { requestId: 99n, ref: { environment: "prod", integration: "keyed", id: "ada" } },
  });
  const refused = await edge.next("connection", (one) => one.requestId === 99n);
  expect(refused.state).toMatchObject({ case: "fault", value: { code: "missing_scope" } });
  const other = openEdge(sidecar, key, { edgeId: "another-edge", environment: "prod" });
  expect(await other.ended).toMatchObject({ rawMessage: expect.stringContaining("another environment") });
});

it("requires the scope edge", async () => {
  const { sidecar } = await prepared();
  const edge = openEdge(sidecar, secretKey);
  expect(await edge.ended).toMatchObject({ rawMessage: expect.stringContaining("scope edge") });
});

it("ends the stream of an edge whose key is revoked", async () => {
  const { sidecar } = await prepared();
  const { id, secret } = await edgeKey(sidecar);
  const edge = openEdge(sidecar, secret);
  await edge.next("inSync");
  await sidecar.client(EnvironmentService).revokeKey({ id });
  expect(await edge.ended).toMatchObject({ rawMessage: expect.stringContaining("not known") });
});

it("refuses a stream that does not begin with a hello", async () => {
  const { sidecar, key } = await prepared();
  const edge = openEdge(sidecar, key, null);
  edge.send({ case: "heartbeat", value: {} });
  expect(await edge.ended).toMatchObject({ rawMessage: expect.stringContaining("`hello` must be the first") });
});
