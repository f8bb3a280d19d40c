import { request } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { ConnectionService, ListConnectionsRequest_Order } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { WebhookService } from "../../../src/gen/latchkey/v1/webhook_pb.ts";
import { freePort, type Postgres, startPostgres } from "../../support/postgres/postgres.ts";
import { openWire } from "../../support/postgres/wire.ts";
import { keyWith } from "../../support/sidecar/door.ts";
import { keyedConnection, startTestSidecar, type TestSidecar } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { calendarUri } from "../../support/sidecar/receiving.ts";
import { codeOf, startWatching } from "../channels/channels.ts";

/** Repeated, so that one lucky poll cannot make a test pass. */
const rounds = Array.from({ length: 8 }, (_, i) => i + 1);

describe.skipIf(lacks("postgres"))("a replica, in the moment after something was done through another", () => {
  let server: Postgres;
  let schemas = 0;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  const newStore = () => {
    schemas += 1;
    return server.storeUrl(`in_step_${schemas}`);
  };

  /**
   * Stops NOTIFY until the replicas reconnect, half a second later: until then only the feed reports others' changes.
   */
  const silenceBells = () =>
    server.query("select pg_terminate_backend(pid) from pg_stat_activity where query ~ '^listen |[p]g_notify'");

  async function two(): Promise<readonly [TestSidecar, TestSidecar]> {
    const env = { LATCHKEY_STORE: newStore() };
    return [await startTestSidecar({ env }), await startTestSidecar({ env })];
  }

  /** The path that a provider sends to. */
  async function addressOf({ client }: TestSidecar, key: string, environment = "dev"): Promise<string> {
    const { integration } = await client(IntegrationService).getIntegration({ environment, key });
    return new URL(integration?.webhookUrl ?? "").pathname;
  }

  const notify = (to: TestSidecar, path: string, uri: string) =>
    fetch(`${to.data}${path}`, { method: "POST", headers: { "x-cal-resource-uri": uri, "x-cal-channel-id": "c" } });

  async function matchesAt({ client }: TestSidecar): Promise<readonly (readonly string[])[]> {
    const { notifications } = await client(WebhookService).listNotifications({ environment: "dev", pageSize: 100 });
    return notifications.toReversed().map(({ matches }) => matches.map(({ id }) => id));
  }

  test("W02 finds the connection that a notification concerns", async () => {
    const [a, b] = await two();
    await a.rest("POST", "/integrations", { body: { unique_key: "calendar", provider: "calendar" } });
    const path = await addressOf(a, "calendar");
    for (const n of rounds) {
      await silenceBells();
      const id = `user-${n}`;
      const credentials = { type: "OAUTH2", access_token: `token-of-${id}` };
      const metadata = { calendarWatchResourceUris: [calendarUri(id)] };
      const body = { provider_config_key: "calendar", connection_id: id, credentials, metadata };
      expect((await a.rest("POST", "/connections", { body })).status).toBe(201);
      expect((await notify(b, path, calendarUri(id))).status).toBe(200);
    }
    expect(await matchesAt(a)).toEqual(rounds.map((n) => [`user-${n}`]));
  });

  test("W02 knows a new webhook address, and no deleted one", async () => {
    const [a, b] = await two();
    for (const n of rounds) {
      await silenceBells();
      const environment = `e${n}`;
      await a.client(EnvironmentService).createEnvironment({ name: environment });
      const ref = { environment, key: "calendar" };
      await a.client(IntegrationService).createIntegration({ integration: { ...ref, provider: "calendar" } });
      const path = await addressOf(a, "calendar", environment);
      expect((await notify(b, path, calendarUri("ada"))).status).toBe(200);
      await a.client(IntegrationService).deleteIntegration(ref);
      expect((await notify(b, path, calendarUri("ada"))).status).toBe(404);
    }
  });

  test("W04 matches a channel's message that arrives before the answer to its watch request", async () => {
    const store = { LATCHKEY_STORE: newStore() };
    const listen = `127.0.0.1:${await freePort()}`;
    // The provider notifies one replica, and the other one calls the provider.
    const watching = await startWatching({ env: { ...store, LATCHKEY_PUBLIC_URL: `http://${listen}` } });
    const env = { ...watching.env, ...store, LATCHKEY_CONFIG: "/latchkey.yaml", LATCHKEY_DATA_LISTEN: listen };
    const other = await startTestSidecar({ env, now: watching.clock.now, files: { "/latchkey.yaml": watching.file } });
    for (const n of rounds) {
      const id = `user-${n}`;
      await watching.connect(id);
      await silenceBells();
      await watching.rpc().createChannel({ connection: watching.ref(id) });
      await expect.poll(async () => (await matchesAt(watching.sidecar))[n - 1]).toEqual([id]);
      // The next one watches the same calendar, and is to be found alone.
      await watching.remove(id);
    }
    expect(await other.metric('latchkey_notifications_total{outcome="taken"}')).toBe(rounds.length);
  });

  test("accepts a new key on each listener", async () => {
    const [a, b] = await two();
    for (const n of rounds) {
      await silenceBells();
      const rest = await keyWith(a, Scope.CONNECTIONS_READ);
      expect((await b.rest("GET", "/connections", { key: rest })).status, `round ${n}`).toBe(200);
      const proxy = await keyWith(a, Scope.PROXY);
      const headers = { authorization: `Bearer ${proxy}`, "provider-config-key": "none", "connection-id": "none" };
      expect((await fetch(`${b.data}/proxy/`, { headers })).status).toBe(404);
      const read = await keyWith(a, Scope.INTEGRATIONS_READ);
      expect(await codeOf(b.client(IntegrationService, read).listIntegrations({}))).toBe("ok");
      const tunnel = await keyWith(a, Scope.PROXY);
      expect(await upgradeOf(b, { ...headers, authorization: `Bearer ${tunnel}` })).toBe(404);
    }
    expect((await b.rest("GET", "/connections", { key: "lk_test-nobody-has-this-one" })).status).toBe(401);
  });

  test("forgets a revoked key: its secret does not open the next key of that name", async () => {
    const [a, b] = await two();
    await silenceBells();
    const made = { environment: "dev", id: "deploy" };
    const { secret: former } = await a.client(EnvironmentService).createKey(made);
    await b.client(EnvironmentService).revokeKey({ id: made.id });
    const { secret } = await b.client(EnvironmentService).createKey(made);
    const status = async (key: string) => (await a.rest("GET", "/integrations", { key })).status;
    expect([await status(secret), await status(former)]).toEqual([200, 401]);
  });

  test("knows a provider that was described", async () => {
    const [a, b] = await two();
    for (const n of rounds) {
      await silenceBells();
      const name = `own-${n}`;
      const auth = { case: "apiKey", value: { header: "x-api-key" } } as const;
      const proxy = { baseUrl: "https://api.example.com" };
      await a.client(ProviderService).createProvider({ provider: { name, auth, proxy } });
      const made = await b.rest("POST", "/integrations", { body: { unique_key: name, provider: name } });
      expect(made.status).toBe(200);
    }
  });

  test("counts connections and lists the newest of another replica, and forgets deleted ones", async () => {
    const [a, b] = await two();
    await a.rest("POST", "/integrations", { body: { unique_key: "keyed", provider: "example-api-key" } });
    const [connectionsOfA, connectionsOfB] = [a.client(ConnectionService), b.client(ConnectionService)];
    const seen = async () => {
      const order = ListConnectionsRequest_Order.NEWEST_FIRST;
      const { counts } = await connectionsOfB.countConnections({ environment: "dev" });
      const { connections } = await connectionsOfB.listConnections({ environment: "dev", order });
      return [counts.map(({ count }) => count), connections.map(({ ref }) => ref?.id)];
    };
    expect(await seen()).toEqual([[], []]);
    for (const id of ["a-2", "a-1"]) await a.rest("POST", "/connections", { body: keyedConnection(id) });
    await expect.poll(seen).toEqual([[2], ["a-1", "a-2"]]);
    const ref = { environment: "dev", integration: "keyed", id: "a-2" };
    await connectionsOfA.deleteConnection({ ref });
    await a.rest("POST", "/connections", { body: keyedConnection("a-2") });
    await expect.poll(seen).toEqual([[2], ["a-2", "a-1"]]);
  });

  test("answers 503 while the database is away, without permanent refusals", async () => {
    const [a] = await two();
    await a.rest("POST", "/integrations", { body: { unique_key: "calendar", provider: "calendar" } });
    const path = await addressOf(a, "calendar");
    const wire = await openWire(server.port);
    const url = server.storeUrl(`in_step_${schemas}`).replace(`:${server.port}/`, `:${wire.port}/`);
    const b = await startTestSidecar({ env: { LATCHKEY_STORE: url } });
    wire.cut();
    const key = await keyWith(a, Scope.CONNECTIONS_READ);
    expect((await b.rest("GET", "/connections", { key })).status).toBe(503);
    expect((await notify(b, path, calendarUri("ada"))).status).toBe(503);
    wire.mend();
    await expect.poll(async () => (await b.rest("GET", "/connections", { key })).status).toBe(200);
    await b.stop();
    await wire.close();
  });
});

/** The response to a WebSocket request. */
function upgradeOf({ data }: TestSidecar, headers: Readonly<Record<string, string>>): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const key = Buffer.alloc(16).toString("base64");
  const asking = {
    connection: "Upgrade",
    upgrade: "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": key,
  };
  request(`${data}/proxy/`, { headers: { ...headers, ...asking } }, (answer) => {
    answer.resume();
    resolve(answer.statusCode ?? 0);
  })
    .on("error", reject)
    .end();
  return promise;
}
