import { once } from "node:events";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { parseChangeable } from "../../../src/config/config.ts";
import { PolicyEffect, PolicyService } from "../../../src/gen/latchkey/v1/policy_pb.ts";
import { type ProxiedSidecar, startProxied } from "../../support/peers/provider.ts";
import { provider as integration } from "../channels/channels.ts";
import { startScripted } from "../syncs/scripting.ts";

const patient = { interval: 20 };
const path = "/config";
const declared = { id: "declared", key: { env: "DECLARED_KEY" } };
const secret = "lk_a-secret-of-the-key-in-the-file-001";

/** A provider that refuses the first credentials, and does something before it gives others. */
async function startRefusing() {
  const seen: string[] = [];
  let meanwhile: () => Promise<unknown> = async () => {};
  const server = http.createServer((request, response) => {
    const send = (status: number, body: object) =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    if (request.url === "/token") {
      request.resume();
      void meanwhile().then(() => send(200, { access_token: "second", token_type: "Bearer", expires_in: 3_600 }));
      return;
    }
    seen.push(`${request.url} ${request.headers.authorization}`);
    send(request.headers.authorization === "Bearer first" ? 401 : 200, {});
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const fileOf = (key: object | undefined) =>
    JSON.stringify({ environments: [{ name: "dev", keys: key === undefined ? [] : [key] }] });
  const env = { LATCHKEY_CONFIG: path, DECLARED_KEY: secret };
  const running = await startProxied(port, {
    env: { ...env, LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${port}` },
    files: { [path]: fileOf(declared) },
    provider: {
      auth: {
        case: "oauth2",
        value: { authorizationUrl: `https://127.0.0.1:${port}/auth`, tokenUrl: `https://127.0.0.1:${port}/token` },
      },
    },
    integration: { credentials: { type: "OAUTH2", client_id: "app", client_secret: "app-secret" } },
    credentials: {
      type: "OAUTH2",
      access_token: "first",
      refresh_token: "more",
      expires_at: new Date(Date.now() + 3_600_000).toISOString(),
    },
  });
  const declare = (key: object | undefined) =>
    running.sidecar.reload(() =>
      parseChangeable({ path, env, files: { read: () => ({ text: fileOf(key), mode: 0o600 }) } }),
    );
  const credentials = { type: "OAUTH2", access_token: "of-bob", refresh_token: "more" };
  const bob = { provider_config_key: "here", connection_id: "bob", credentials };
  expect((await running.rest("POST", "/connections", { body: bob })).status).toBe(201);
  const ask = async (at: string, connection = "ada") => {
    const headers = { ...running.proxyHeaders, "connection-id": connection, authorization: `Bearer ${secret}` };
    const answer = await fetch(`${running.data}/proxy${at}`, { headers });
    return [answer.status, answer.headers.get("latchkey-error")];
  };
  return {
    running,
    seen,
    declare,
    ask,
    before: (what: typeof meanwhile) => {
      meanwhile = what;
    },
  };
}

const deny = ({ client }: Pick<ProxiedSidecar, "client">, condition: string) =>
  client(PolicyService).createPolicy({ policy: { environment: "dev", effect: PolicyEffect.DENY, condition } });

it("judges a request again that is repeated with other credentials", async () => {
  const { running, seen, ask, before } = await startRefusing();
  await deny(running, 'request.path == "/never"');
  await expect.poll(() => ask("/never"), patient).toEqual([403, "denied_by_policy"]);
  before(async () => {
    await deny(running, 'request.path == "/x"');
    // The policy is in force once the same request is denied with a connection whose credentials are good.
    await expect.poll(() => ask("/x", "bob"), patient).toEqual([403, "denied_by_policy"]);
  });
  expect(await ask("/x")).toEqual([403, "denied_by_policy"]);
  expect(seen.filter((one) => one === "/x Bearer first")).toHaveLength(1);
  expect(seen).not.toContain("/x Bearer second");
});

it.each([
  ["narrowed", { ...declared, limits: { paths: ["/y"] } }, [403, "not_in_session"]],
  ["without its scope", { ...declared, scopes: ["connections:read"] }, [403, "missing_scope"]],
  ["gone", undefined, [401, "unknown_key"]],
] as const)("does not repeat a request whose key is %s meanwhile", async (_, now, expected) => {
  const { seen, ask, before, declare } = await startRefusing();
  before(() => declare(now));
  expect(await ask("/x")).toEqual(expected);
  expect(seen).toEqual(["/x Bearer first"]);
});

it("judges each attempt of a script's request", async () => {
  const script = `
import { createAction } from "latchkey/scripts";
export default createAction({ description: "Asks.", exec: async (nango) => {
  try { await nango.get({ endpoint: "/missing", retries: 4, retryOn: [404] }); return "sent"; }
  catch (error) { return error.code ?? String(error); }
} });`;
  const started = await startScripted({ "actions/asks.ts": script });
  await started.connect("ada");
  const headers = { "provider-config-key": integration, "connection-id": "ada" };
  const attempts = () => Object.values(started.sandbox.seen().requests).reduce((sum, one) => sum + one, 0);
  const before = attempts();
  const running = started.sidecar.rest("POST", "/action/trigger", { headers, body: { action_name: "asks" } });
  await expect.poll(attempts, patient).toBeGreaterThan(before);
  await deny(started.sidecar, 'request.path.endsWith("/missing")');
  expect((await running).body).toBe("denied_by_policy");
});

it("counts a request once, however often it is sent", async () => {
  const { running, seen, ask } = await startRefusing();
  await deny(running, 'request.path == "/never"');
  await expect.poll(() => ask("/never", "bob"), patient).toEqual([403, "denied_by_policy"]);
  const allowed = async () => (await running.metric('latchkey_policy_decisions_total{decision="allowed"}')) ?? 0;
  const before = await allowed();
  expect(await ask("/x")).toEqual([200, null]);
  expect(seen.slice(-2)).toEqual(["/x Bearer first", "/x Bearer second"]);
  expect((await allowed()) - before).toBe(1);
});
