import { request } from "node:http";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { startHttpProvider } from "../../support/edges/http-provider.ts";
import { startTestEdge } from "../../support/edges/test-edge.ts";
import { configOf, type Identities } from "../../support/identities/callers.ts";
import { type Issuer, startIssuer } from "../../support/identities/issuer.ts";
import { startTestSidecar, temporaryFolder } from "../../support/sidecar/harness.ts";
import { edgeKey } from "../edges/test-edge.ts";

/** A broker with the connection `ada`, and an edge with rules of its own. */
async function start(identities: Identities) {
  const provider = await startHttpProvider();
  const allowed = { LATCHKEY_ALLOW_PRIVATE: provider.url };
  const serve = await startTestSidecar({ env: allowed });
  await serve.client(ProviderService).createProvider({
    provider: {
      name: "here",
      auth: { case: "apiKey", value: { header: "authorization", prefix: "Bearer " } },
      proxy: { baseUrl: provider.url.replace("http:", "https:") },
    },
  });
  await serve.rest("POST", "/integrations", { body: { unique_key: "keyed", provider: "here" } });
  const body = { provider_config_key: "keyed", connection_id: "ada", credentials: { type: "API_KEY", apiKey: "k" } };
  expect((await serve.rest("POST", "/connections", { body })).status).toBe(201);
  const edge = await startTestEdge({
    brokers: [serve.control],
    env: { ...allowed, LATCHKEY_BROKERS_KEY: (await edgeKey(serve)).secret, LATCHKEY_CONFIG: "/edge.yaml" },
    files: { "/edge.yaml": configOf(identities) },
  });
  return { serve, edge };
}

const issuersOf = ({ url }: Issuer) => [{ name: "cluster", issuer: url, audience: "latchkey" }];
const rule = { service_account: "shop/checkout", environment: "dev" };

it("checks tokens itself, by rules of its own, also while brokers are away", async () => {
  const issuer = await startIssuer("ES256");
  const issuers = issuersOf(issuer);
  const { serve, edge } = await start({ issuers, rules: [rule] });
  const ask = async (token: string) => {
    const response = await edge.proxy("ada", { key: token });
    return { status: response.status, text: await response.text() };
  };
  expect((await ask(issuer.token())).status).toBe(200);
  expect(await ask(issuer.token({ aud: "vault" }))).toMatchObject({ status: 401 });
  expect(await ask(issuer.token({ sub: "system:serviceaccount:other:checkout" }))).toMatchObject({ status: 401 });
  await serve.stop();
  issuer.rotate(true);
  expect((await ask(issuer.token())).status).toBe(200);

  edge.files["/edge.yaml"] = configOf({ issuers, rules: [{ ...rule, limits: { methods: ["POST"] } }] });
  await edge.reload();
  expect(await ask(issuer.token())).toMatchObject({ status: 403, text: expect.stringContaining("not_in_session") });
  edge.files["/edge.yaml"] = configOf({ issuers, rules: [{ ...rule, service_account: "nobody" }] });
  await edge.reload();
  expect(edge.logged.join("")).toContain("the previous rules for identities stay in force");
  expect((await ask(issuer.token())).status).toBe(403);
  edge.files["/edge.yaml"] = configOf({ issuers, rules: [{ ...rule, environment: "prod" }] });
  await edge.reload();
  expect((await ask(issuer.token())).text).toContain("this edge follows dev");
});

it.skipIf(process.platform !== "linux")("knows the service of its pod by its user or its socket", async () => {
  const socket = join(await temporaryFolder(), "edge.sock");
  const { edge } = await start({
    rules: [
      { unix: { uid: process.getuid?.() ?? -1 }, environment: "dev", limits: { methods: ["GET"] } },
      { unix: { socket }, environment: "dev" },
    ],
  });
  const headers = { "provider-config-key": "keyed", "connection-id": "ada" };
  const status = (method: string) => fetch(`${edge.data}/proxy/x`, { method, headers }).then((one) => one.status);
  expect([await status("GET"), await status("GET"), await status("POST")]).toEqual([200, 200, 403]);
  const overSocket = await new Promise<number | undefined>((resolve, reject) => {
    const sent = request({ socketPath: socket, path: "/proxy/x", headers: { host: "localhost", ...headers } });
    sent.on("response", (response) => resolve(response.resume().statusCode)).on("error", reject);
    sent.end();
  });
  expect(overSocket).toBe(200);
});

it.skipIf(process.platform !== "linux")(
  "lends its own user or certificate to nobody whose requests it relays",
  async () => {
    const rule = { unix: { uid: process.getuid?.() ?? -1 }, environment: "dev", scopes: ["connections:read"] };
    const serve = await startTestSidecar({
      env: { LATCHKEY_CONFIG: "/latchkey.yaml" },
      files: { "/latchkey.yaml": configOf({ rules: [rule] }) },
    });
    const edge = await startTestEdge({
      brokers: [serve.control],
      env: { LATCHKEY_BROKERS_KEY: (await edgeKey(serve)).secret, LATCHKEY_BROKERS_DATA: serve.data },
    });
    const status = (data: string) => fetch(`${data}/connections`).then((one) => one.status);
    expect([await status(serve.data), await status(edge.data)]).toEqual([200, 401]);
  },
);
