import { once } from "node:events";
import { get } from "node:http";
import { expect, it, onTestFinished } from "vitest";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { startHttpProvider } from "../../support/edges/http-provider.ts";
import { startTestEdge, type TestEdge } from "../../support/edges/test-edge.ts";
import { grpcCaller, metadataOf, startGrpcProvider } from "../../support/peers/grpc-provider.ts";
import { startLimitedProvider } from "../../support/peers/limited-provider.ts";
import { connectLimited, limitedSettings, offerLoad } from "../../support/peers/offered-load.ts";
import { startProxied } from "../../support/peers/provider.ts";
import { startPostgres } from "../../support/postgres/postgres.ts";
import { type HarnessOptions, secretKey, startTestSidecar, type TestSidecar } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { edgeKey } from "./test-edge.ts";

/** An integration `keyed` with the connection `ada`, on a real broker. */
async function furnish(serve: TestSidecar, providerUrl: string): Promise<string> {
  await serve.client(ProviderService).createProvider({
    provider: {
      name: "here",
      auth: { case: "apiKey", value: { header: "authorization", prefix: "Bearer " } },
      proxy: { baseUrl: providerUrl.replace("http:", "https:") },
    },
  });
  const made = await serve.rest("POST", "/integrations", { body: { unique_key: "keyed", provider: "here" } });
  expect(made.status).toBe(200);
  await connect(serve, "ada");
  return (await edgeKey(serve)).secret;
}

async function connect({ rest }: Pick<TestSidecar, "rest">, id: string, apiKey = `key-of-${id}`) {
  const body = { provider_config_key: "keyed", connection_id: id, credentials: { type: "API_KEY", apiKey } };
  expect((await rest("POST", "/connections", { body })).status).toBe(201);
}

async function start(options: HarnessOptions = {}) {
  const provider = await startHttpProvider();
  const allowed = { LATCHKEY_ALLOW_PRIVATE: provider.url };
  const serve = await startTestSidecar({ ...options, env: { ...options.env, ...allowed } });
  const key = await furnish(serve, provider.url);
  return { provider, serve, key, allowed };
}

const edgeOf = (
  brokers: readonly TestSidecar[],
  key: string,
  env: Readonly<Record<string, string>>,
  files: Readonly<Record<string, string>> = {},
) =>
  startTestEdge({
    files,
    brokers: brokers.map(({ control }) => control),
    env: { LATCHKEY_BROKERS_KEY: key, LATCHKEY_BROKERS_DATA: brokers.map(({ data }) => data).join(","), ...env },
  });

it("serves what a broker has, and follows its changes", async () => {
  const { provider, serve, key, allowed } = await start();
  const edge = await edgeOf([serve], key, allowed);
  expect((await edge.proxy("ada")).status).toBe(200);
  expect(provider.requests.at(-1)?.authorization).toBe("Bearer key-of-ada");
  const replaced = {
    provider_config_key: "keyed",
    connection_id: "ada",
    credentials: { type: "API_KEY", apiKey: "new" },
  };
  expect((await serve.rest("POST", "/connections", { body: replaced })).status).toBe(201);
  await expect
    .poll(async () => (await edge.proxy("ada")).status && provider.requests.at(-1)?.authorization)
    .toBe("Bearer new");
  const unknown = await edge.proxy("nobody");
  expect([unknown.status, unknown.headers.get("latchkey-error")]).toEqual([404, "unknown_connection"]);
});

it("refuses a deleted connection and a revoked key", async () => {
  const { serve, key, allowed } = await start();
  const service = await serve.client(EnvironmentService).createKey({ environment: "dev", id: "service" });
  const edge = await edgeOf([serve], key, allowed);
  const asService = () => edge.proxy("ada", { key: service.secret });
  expect((await asService()).status).toBe(200);
  await serve.client(EnvironmentService).revokeKey({ id: service.key?.id ?? "" });
  await expect.poll(async () => (await asService()).headers.get("latchkey-error")).toBe("unknown_key");
  expect((await edge.proxy("ada")).status).toBe(200);
  expect((await serve.rest("DELETE", "/connections/ada?provider_config_key=keyed")).status).toBe(200);
  await expect.poll(async () => (await edge.proxy("ada")).headers.get("latchkey-error")).toBe("unknown_connection");
  await connect(serve, "ada");
  await expect.poll(async () => (await edge.proxy("ada")).status).toBe(200);
});

it("uses a connection at once that was made through the edge", async () => {
  const { provider, serve, key, allowed } = await start();
  const edge = await edgeOf([serve], key, allowed);
  expect((await edge.proxy("bob")).status).toBe(404);
  await connect({ rest: (method, path, { body, ...rest } = {}) => serve.rest(method, path, { ...rest, body }) }, "bob");
  await expect.poll(async () => (await edge.proxy("bob")).status).toBe(200);
  expect(provider.requests.at(-1)?.authorization).toBe("Bearer key-of-bob");
});

it("follows the description of a provider", async () => {
  const { provider, serve, key, allowed } = await start();
  const edge = await edgeOf([serve], key, allowed);
  expect((await edge.proxy("ada")).status).toBe(200);
  const providers = serve.client(ProviderService);
  await providers.updateProvider({
    provider: {
      name: "here",
      auth: { case: "apiKey", value: { header: "authorization", prefix: "Token " } },
      proxy: { baseUrl: provider.url.replace("http:", "https:") },
    },
  });
  await expect
    .poll(async () => (await edge.proxy("ada")).status && provider.requests.at(-1)?.authorization)
    .toBe("Token key-of-ada");
});

it("has addresses of connections, which need no headers", async () => {
  const { provider, serve, key, allowed } = await start();
  const alias = "{ name: here-ada, environment: dev, integration: keyed, connection: ada }";
  const edge = await edgeOf(
    [serve],
    key,
    { ...allowed, LATCHKEY_CONFIG: "/edge.yaml" },
    { "/edge.yaml": `aliases: [${alias}]` },
  );
  const { hostname, port } = new URL(edge.data);
  const asked = get({
    ...{ hostname, port, path: "/v1/files" },
    headers: { host: `here-ada.localhost:${port}`, authorization: `Bearer ${secretKey}` },
  });
  const [response] = await once(asked, "response");
  response.resume();
  expect(response.statusCode).toBe(200);
  expect(provider.requests.at(-1)).toMatchObject({ url: "/v1/files", authorization: "Bearer key-of-ada" });
});

it("keeps a provider's limit together with other edges", async () => {
  const provider = await startLimitedProvider();
  onTestFinished(() => provider.close());
  const { allowPrivate, file } = limitedSettings(provider);
  const env = { LATCHKEY_ALLOW_PRIVATE: allowPrivate };
  const serve = await startTestSidecar({ files: { "/l.yaml": file }, env: { ...env, LATCHKEY_CONFIG: "/l.yaml" } });
  await connectLimited({ data: serve.data, key: secretKey });
  const { secret } = await edgeKey(serve);
  const edges = await Promise.all([edgeOf([serve], secret, env), edgeOf([serve], secret, env)]);
  const load = { warmUpMs: 2_000, lengthMs: 2_000, background: 300, interactive: 20 };
  const result = await offerLoad({ key: secretKey, replicas: edges, provider, ...load });
  // How many pass depends on the machine; that none is refused does not.
  expect(result.passed).toBeGreaterThan(0);
  expect(result.refusedPart).toBeLessThanOrEqual(0.001);
});

it("carries calls of grpc-js", async () => {
  const provider = await startGrpcProvider();
  const serve = await startProxied(provider.port);
  const { secret } = await edgeKey(serve);
  const edge = await edgeOf([serve], secret, { LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${provider.port}` });
  const { say } = grpcCaller(edge.data);
  const named: Readonly<Record<string, string>> = { ...serve.proxyHeaders, "x-caller": "ada" };
  const { answer, status } = await say({ text: "hello" }, metadataOf(named));
  expect([answer, status.code]).toEqual([{ text: "hello" }, 0]);
  expect(status.metadata.get("x-trailing")).toEqual(["for ada"]);
});

/** Sends requests one after another until it is told to stop; returns the statuses other than 200. */
function keepCalling(edge: TestEdge) {
  const failed: number[] = [];
  let count = 0;
  let isOver = false;
  const done = (async () => {
    while (!isOver) {
      const { status } = await edge.proxy("ada");
      count += 1;
      if (status !== 200) failed.push(status);
    }
  })();
  const end = async () => {
    isOver = true;
    await done;
    return { failed, count };
  };
  onTestFinished(() => void end());
  return { end, count: () => count };
}

it.skipIf(lacks("postgres"))("loses no request when brokers over PostgreSQL stop one after the other", async () => {
  const database = await startPostgres();
  onTestFinished(() => database.stop());
  const env = { LATCHKEY_STORE: database.storeUrl("edges") };
  const { serve: first, key, allowed } = await start({ env });
  const second = await startTestSidecar({ env: { ...env, ...allowed } });
  const edge = await edgeOf([first, second], key, allowed);
  expect((await edge.proxy("ada")).status).toBe(200);
  const calls = keepCalling(edge);
  await first.stop();
  await expect.poll(async () => (await edge.ready()).text).toBe("ok\n");
  const before = calls.count();
  await second.stop();
  await expect.poll(async () => (await edge.ready()).text).toMatch(/brokers away since/);
  await expect.poll(() => calls.count()).toBeGreaterThan(before + 50);
  expect((await calls.end()).failed).toEqual([]);
  expect((await edge.ready()).status).toBe(200);
});
