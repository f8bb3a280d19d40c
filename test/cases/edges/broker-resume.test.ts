import { connect } from "node:http2";
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { expect, it, onTestFinished } from "vitest";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { FollowRequestSchema } from "../../../src/gen/latchkey/v1/edge_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import {
  createIntegrations,
  keyedConnection,
  secretKey,
  startTestSidecar,
  type TestSidecar,
  temporaryFolder,
} from "../../support/sidecar/harness.ts";
import { provider as renewed, startRenewing } from "../../support/sidecar/renewing.ts";
import { auditOf } from "./edge-audit.ts";
import { digestOf, type EdgeStream, edgeKey, openEdge } from "./test-edge.ts";

async function prepared(): Promise<{ sidecar: TestSidecar; key: string }> {
  const sidecar = await startTestSidecar();
  await createIntegrations(sidecar);
  for (const id of ["ada", "bob", "cyd"]) await sidecar.rest("POST", "/connections", { body: keyedConnection(id) });
  const { secret } = await edgeKey(sidecar);
  return { sidecar, key: secret };
}

/** Everything that an edge has, as it says in its next hello. */
async function holdings(edge: EdgeStream, ids: readonly string[], secret: string) {
  const connections = [];
  for (const id of ids) {
    const { ref, version } = await edge.want("keyed", id);
    connections.push({ ...(ref && { ref }), version });
  }
  const { digest, version } = await edge.wantKey(secret);
  const integration = await edge.next("integration");
  const provider = await edge.next("provider");
  return {
    edgeId: "an-edge-that-returns",
    connections,
    keys: [{ digest, version }],
    integrations: [{ name: integration.key, version: integration.version }],
    providers: [{ name: provider.name, version: provider.version }],
  };
}

it("sends an edge that returns only what differs from what it has", async () => {
  const { sidecar, key } = await prepared();
  const environments = sidecar.client(EnvironmentService);
  const { key: other, secret } = await environments.createKey({ environment: "dev" });
  const first = openEdge(sidecar, key);
  const hello = await holdings(first, ["ada", "bob", "cyd"], secret);
  first.leave();
  await first.ended;

  const again = openEdge(sidecar, key, hello);
  await again.next("inSync");
  expect(again.received.map(({ message }) => message.case)).toEqual(["welcome", "inSync"]);
  again.leave();
  await again.ended;

  await sidecar.rest("POST", "/connections", {
    body: { ...keyedConnection("bob"), credentials: { type: "API_KEY", apiKey: "new-key" } },
  });
  await sidecar.client(ConnectionService).deleteConnection({
    ref: { environment: "dev", integration: "keyed", id: "cyd" },
  });
  await environments.revokeKey({ id: other?.id ?? "" });
  const last = openEdge(sidecar, key, hello);
  await last.next("inSync");
  expect(last.received.map(({ message }) => message.case).sort()).toEqual([
    "connection",
    "connection",
    "inSync",
    "key",
    "welcome",
  ]);
  const changed = await last.next("connection", ({ ref }) => ref?.id === "bob");
  expect(changed.state).toMatchObject({ value: { credentials: { kind: { value: { apiKey: "new-key" } } } } });
  const gone = await last.next("connection", ({ ref }) => ref?.id === "cyd");
  expect(gone.state).toMatchObject({ case: "fault", value: { code: "unknown_connection" } });
  const revoked = await last.next("key");
  expect(revoked.key).toBeUndefined();
});

it("follows what an edge still has from then on", async () => {
  const { sidecar, key } = await prepared();
  const first = openEdge(sidecar, key);
  const hello = await holdings(first, ["ada"], secretKey);
  const again = openEdge(sidecar, key, hello);
  await again.next("inSync");
  await sidecar.client(ConnectionService).deleteConnection({
    ref: { environment: "dev", integration: "keyed", id: "ada" },
  });
  const gone = await again.next("connection");
  expect(gone.state.case).toBe("fault");
});

it("sends a changed integration to the edges that have it", async () => {
  const { sidecar, key } = await prepared();
  const edge = openEdge(sidecar, key);
  await edge.want("keyed", "ada");
  const before = await edge.next("integration");
  expect(before.integration).toMatchObject({ key: "keyed", hosts: [] });
  await sidecar.client(IntegrationService).updateIntegration({
    integration: { environment: "dev", key: "keyed", hosts: [{ origin: "https://other.example.com" }] },
    updateMask: { paths: ["hosts"] },
  });
  const after = await edge.next("integration");
  expect(after.integration?.hosts).toMatchObject([{ origin: "https://other.example.com" }]);
  expect(after.version).not.toEqual(before.version);
  expect(after.secrets).toBeUndefined();
});

it("sends secrets of an integration only where requests are signed with them", async () => {
  const { sidecar, key } = await prepared();
  const integrations = sidecar.client(IntegrationService);
  await integrations.updateIntegration({
    integration: {
      environment: "dev",
      key: "first",
      oauth: { clientId: "consumer" },
      secrets: { clientSecret: "consumer-secret" },
    },
    updateMask: { paths: ["oauth.client_id", "secrets.client_secret"] },
  });
  await sidecar.rest("POST", "/connections", {
    body: {
      provider_config_key: "first",
      connection_id: "ada",
      credentials: { type: "OAUTH1", oauth_token: "token", oauth_token_secret: "token-secret" },
    },
  });
  const edge = openEdge(sidecar, key);
  const { state } = await edge.want("first", "ada");
  expect(state).toMatchObject({ value: { credentials: { kind: { value: { oauthTokenSecret: "token-secret" } } } } });
  const integration = await edge.next("integration");
  expect(integration.secrets?.clientSecret).toBe("consumer-secret");
});

it("sends no refresh token, and refreshes what has expired before it answers", async () => {
  const { sidecar, connectAda, renewals } = await startRenewing();
  const { refresh_token, access_token } = await connectAda();
  const { secret } = await edgeKey(sidecar);
  const edge = openEdge(sidecar, secret);
  const { state } = await edge.want(renewed, "ada");
  if (state.case !== "live") throw new Error("the connection is not live");
  const { credentials, isRenewable, validUntil } = state.value;
  expect(isRenewable).toBe(true);
  expect(Number(validUntil?.seconds)).toBeGreaterThan(Date.now() / 1_000);
  expect(credentials?.kind.value).toMatchObject({ refreshToken: "" });
  expect(credentials?.kind.value).not.toMatchObject({ accessToken: access_token });
  expect(
    Buffer.from(JSON.stringify(credentials, (_, one) => (typeof one === "bigint" ? 0 : one))).toString(),
  ).not.toContain(refresh_token);
  expect(renewals()).toBe(1);
});

it("replaces credentials that a provider has refused, once for all edges", async () => {
  const { sidecar, connectAda, renewals } = await startRenewing();
  await connectAda({ expiresInS: 3_600 });
  const { secret } = await edgeKey(sidecar);
  const [edge, other] = [openEdge(sidecar, secret), openEdge(sidecar, secret)];
  const { version } = await edge.want(renewed, "ada");
  await other.want(renewed, "ada");
  const [one, two] = await Promise.all([
    edge.want(renewed, "ada", { refusedVersion: version }),
    other.want(renewed, "ada", { refusedVersion: version }),
  ]);
  expect(one.version).not.toEqual(version);
  expect(two.version).toEqual(one.version);
  expect(renewals()).toBe(1);
});

it("refreshes a followed connection ahead of its expiry, and sends it", async () => {
  const { sidecar, connectAda, renewals } = await startRenewing();
  // The lifetime is assumed to be an hour: a token is refreshed from six minutes before its end on.
  await connectAda({ expiresInS: 60 });
  const { secret } = await edgeKey(sidecar);
  const edge = openEdge(sidecar, secret);
  const first = await edge.want(renewed, "ada");
  const second = await edge.next("connection", (one) => one.requestId === 0n);
  expect(second.version).not.toEqual(first.version);
  expect(renewals()).toBe(1);
});

it("asks its edges to leave before it stops", async () => {
  const { sidecar, key } = await prepared();
  const edge = openEdge(sidecar, key);
  await edge.next("inSync");
  const stopped = sidecar.stop();
  await edge.next("leave");
  // The stream goes on until the edge ends it.
  const { state } = await edge.want("keyed", "ada");
  expect(state.case).toBe("live");
  edge.leave();
  expect(await edge.ended).toBeUndefined();
  await stopped;
});

it("ends the stream of an edge that does not read", async () => {
  const { sidecar, key } = await prepared();
  const count = 40;
  for (let i = 0; i < count; i += 1) {
    const body = { ...keyedConnection(`user-${i}`), credentials: { type: "API_KEY", apiKey: "k".repeat(4_000) } };
    expect((await sidecar.rest("POST", "/connections", { body })).status).toBe(201);
  }
  const session = connect(sidecar.control);
  onTestFinished(() => session.destroy());
  session.on("error", () => {});
  const stream = session.request({
    ...{ ":method": "POST", ":path": "/latchkey.v1.EdgeService/Follow", te: "trailers" },
    ...{ "content-type": "application/grpc+proto", authorization: `Bearer ${key}` },
  });
  // Without a listener for data, nothing is read, and the window fills.
  stream.on("error", () => {});
  const send = (message: MessageInitShape<typeof FollowRequestSchema>["message"]) => {
    const bytes = toBinary(FollowRequestSchema, create(FollowRequestSchema, { ...(message && { message }) }));
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(bytes.length, 1);
    stream.write(Buffer.concat([prefix, bytes]));
  };
  send({ case: "hello", value: { edgeId: "an-edge-that-sleeps", host: "pod-9", version: "1" } });
  for (let i = 0; i < count; i += 1) {
    send({
      case: "wantConnection",
      value: { requestId: BigInt(i + 1), ref: { integration: "keyed", id: `user-${i}` } },
    });
  }
  const has = (text: string) => sidecar.logged.some((line) => line.includes(text));
  await expect.poll(() => has('"edge connected"')).toBe(true);
  await expect.poll(() => has('"edge disconnected"')).toBe(true);
  expect(session.destroyed).toBe(false);
});

it("records what edges have used", async () => {
  const { sidecar, key } = await prepared();
  const edge = openEdge(sidecar, key);
  await edge.want("keyed", "ada");
  const { key: known } = await edge.wantKey(secretKey);
  const seconds = BigInt(Math.floor(Date.now() / 1_000) + 3_600);
  edge.send({
    case: "use",
    value: {
      connections: [{ ref: { integration: "keyed", id: "ada" } }, { ref: { integration: "keyed", id: "bob" } }],
      // Not later than now.
      keys: [{ keyId: known?.id ?? "", lastUsedAt: { seconds } }],
    },
  });
  await edge.wantKey("lk_unknown");
  const environments = sidecar.client(EnvironmentService);
  const { keys } = await environments.listKeys({ environment: "dev" });
  const used = keys.find(({ id }) => id === known?.id)?.lastUsedAt;
  expect(Number(used?.seconds)).toBeLessThan(Number(seconds));
  expect(digestOf(secretKey)).toHaveLength(32);
});

it("reads what an edge still has from several messages", async () => {
  const { sidecar, key } = await prepared();
  const first = openEdge(sidecar, key);
  const { connections, keys, integrations, providers, edgeId } = await holdings(first, ["ada", "bob"], secretKey);
  first.leave();
  await first.ended;
  await sidecar.client(ConnectionService).deleteConnection({
    ref: { environment: "dev", integration: "keyed", id: "ada" },
  });

  const again = openEdge(sidecar, key, { edgeId, keys, heldMessages: 2 });
  again.send({ case: "held", value: { integrations, providers } });
  again.send({ case: "held", value: { connections } });
  const welcome = await again.next("welcome");
  expect(welcome.heldMessages).toBe(2);
  await again.next("inSync");
  const gone = await again.next("connection");
  expect(gone).toMatchObject({ ref: { id: "ada" }, state: { case: "fault" } });
  await sidecar.client(ConnectionService).deleteConnection({
    ref: { environment: "dev", integration: "keyed", id: "bob" },
  });
  expect(await again.next("connection")).toMatchObject({ ref: { id: "bob" }, state: { case: "fault" } });
  expect(again.received.map(({ message }) => message.case)).not.toContain("integration");
});

it("refuses other messages where more of what an edge has must follow", async () => {
  const { sidecar, key } = await prepared();
  const missing = openEdge(sidecar, key, { heldMessages: 1 });
  missing.send({ case: "use", value: {} });
  expect(String(await missing.ended)).toContain("`held` must follow as often as `hello` says");
  const extra = openEdge(sidecar, key);
  extra.send({ case: "held", value: {} });
  expect(String(await extra.ended)).toContain("`held` must follow `hello`");
});

it("loses no audit entry when it stops at once, also of an edge that does not leave", async () => {
  const folder = await temporaryFolder();
  const first = await startTestSidecar({ folder });
  await createIntegrations(first);
  await first.rest("POST", "/connections", { body: keyedConnection("ada") });
  const { secret } = await edgeKey(first);
  const edgeId = "an-edge-that-stays";
  const edge = openEdge(first, secret, { edgeId });
  await edge.want("keyed", "ada");
  await first.stop();

  const again = await startTestSidecar({ folder });
  for (const [action, targets] of [
    ["edge.connect", [edgeId, "pod-1"]],
    ["edge.deliver", [edgeId, "keyed/ada"]],
    ["edge.disconnect", [edgeId, "pod-1"]],
  ] as const) {
    const events = await auditOf(again, action);
    expect(
      events.map((event) => event.targets),
      action,
    ).toEqual([targets]);
  }
});
