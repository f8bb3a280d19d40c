import { rm } from "node:fs/promises";
import http2 from "node:http2";
import { expect, it, onTestFinished } from "vitest";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { PolicyService } from "../../../src/gen/latchkey/v1/policy_pb.ts";
import { holdPolicy, patient } from "../../support/approvals/holding.ts";
import { startTestEdge } from "../../support/edges/test-edge.ts";
import {
  apiHost,
  askRaw,
  openSecure,
  providerToken,
  startForwardProxied,
  startTlsProvider,
} from "../../support/peers/forward-proxied.ts";
import { startProvider, startProxied } from "../../support/peers/provider.ts";
import { secretKey, type TestSidecar, temporaryFolder } from "../../support/sidecar/harness.ts";
import { openSession, streamed } from "../../support/wire/http2-call.ts";
import { faces, startForSessions } from "../access-sessions/faces.ts";
import { provider as integration } from "../channels/channels.ts";
import { edgeKey } from "../edges/test-edge.ts";
import { startScripted } from "../syncs/scripting.ts";

/** Holds requests to `/held/…`, and returns a function that approves everything that waits. */
async function hold({ client, rest }: TestSidecar): Promise<() => Promise<readonly string[]>> {
  const condition = 'request.path.contains("/held/")';
  await client(PolicyService).createPolicy({ policy: { ...holdPolicy, condition } });
  const scopes = [Scope.APPROVALS_DECIDE];
  const { secret } = await client(EnvironmentService).createKey({ environment: "dev", scopes });
  return async () => {
    const { body } = await rest("GET", "/approvals?state=waiting", { key: secret });
    const ids = (body.approvals as { id: string }[]).map(({ id }) => id);
    for (const id of ids) await rest("POST", `/approvals/${id}/approve`, { key: secret, body: {} });
    return ids;
  };
}

it("holds requests on every face of the listeners, and sends each once", async () => {
  const running = await startForSessions();
  const approveAll = await hold(running);
  const names = Object.keys(faces);
  for (const [at, name] of names.entries()) {
    const ask = faces[name];
    if (ask === undefined) throw new Error(name);
    const again = () => ask(running, secretKey, { path: `/held/${at}` });
    await expect.poll(async () => [name, (await again())[1]], patient).toEqual([name, "approval_required"]);
    const before = running.sent();
    expect(await approveAll()).not.toEqual([]);
    expect([name, ...(await again())]).toEqual([name, 200, null]);
    expect((await again())[1]).toBe("approval_required");
    // A WebSocket is no request for this provider.
    expect([name, running.sent() - before]).toEqual([name, name === "WebSocket" ? 0 : 1]);
  }
});

it("tells a gRPC client by its status, and names the approval", async () => {
  const provider = await startProvider();
  const running = await startProxied(provider.port);
  await hold(running);
  const session = await openSession(running.data);
  const message = Buffer.from([0, 0, 0, 0, 2, 8, 1]);
  const headers = { ...running.proxyHeaders, "content-type": "application/grpc", te: "trailers" };
  const call = () => streamed(session, "/proxy/held/rpc.Service/Pay", { headers, body: message });
  await expect.poll(async () => (await call()).headers["grpc-status"], patient).toBe("9");
  const { status, headers: answer } = await call();
  expect([status, answer["latchkey-error"]]).toEqual([200, "approval_required"]);
  expect(answer["latchkey-approval"]).toMatch(/^[\w-]{22}$/);
  expect(provider.received()).toBe("");
});

it("holds requests in tunnels of the forward proxy, over HTTP/1.1 and HTTP/2", async () => {
  const provider = await startTlsProvider();
  const folder = await temporaryFolder();
  const running = await startForwardProxied(provider, { folder });
  onTestFinished(async () => {
    await running.stop();
    provider.close();
    await rm(folder, { recursive: true, force: true });
  });
  const approveAll = await hold(running);
  const authority = `${apiHost}:${provider.port}`;
  const plain = async () => {
    const socket = await openSecure(running.proxy, authority, { ca: running.ca });
    onTestFinished(() => void socket.destroy());
    return askRaw(socket, `DELETE /held/one HTTP/1.1\r\nHost: ${authority}\r\n\r\n`);
  };
  await expect.poll(plain, patient).toMatch(/^HTTP\/1\.1 202 /);
  const held = await plain();
  expect(held).toMatch(/latchkey-error: approval_required/i);
  // The location would be a path of the provider.
  expect(held).not.toMatch(/location:/i);
  await approveAll();
  expect(await plain()).toMatch(/^HTTP\/1\.1 200 /);
  const tls = { ALPNProtocols: ["h2"] };
  const socket = await openSecure(running.proxy, authority, { ca: running.ca, tls });
  const session = http2.connect(`https://${authority}`, { createConnection: () => socket });
  session.on("error", () => {});
  onTestFinished(() => session.destroy());
  const stream = () => streamed(session, "/held/two", { headers: { ":method": "DELETE" } });
  expect(await stream()).toMatchObject({ status: 202, headers: { "latchkey-error": "approval_required" } });
  await approveAll();
  expect((await stream()).status).toBe(200);
  const sent = provider.seen.filter(({ url }) => url.startsWith("/held/"));
  expect(sent.map(({ url }) => url)).toEqual(["/held/one", "/held/two"]);
  expect(sent.map(({ headers }) => headers.authorization)).toEqual([
    `Bearer ${providerToken}`,
    `Bearer ${providerToken}`,
  ]);
});

it("fails a request of a script with the approval, and sends it in a later run", async () => {
  const script = `
import { createAction } from "latchkey/scripts";
import * as z from "zod";
export default createAction({ description: "Asks.", exec: async (nango, path) => {
  try { await nango.delete({ endpoint: path, retries: 3 }); return "sent"; }
  catch (error) { return [error.code, error.message].join(" "); }
} });`;
  const started = await startScripted({ "actions/asks.ts": script });
  await started.connect("ada");
  const approveAll = await hold(started.sidecar);
  const run = async () => {
    const headers = { "provider-config-key": integration, "connection-id": "ada" };
    const body = { action_name: "asks", input: "/held/one" };
    return String((await started.sidecar.rest("POST", "/action/trigger", { headers, body })).body);
  };
  await expect.poll(run, patient).toContain("approval_required");
  const [id = ""] = await approveAll();
  expect(id).not.toBe("");
  expect(await run()).not.toContain("approval");
  // It was used: the next run asks again.
  expect(await run()).toContain("approval_required");
});

it("is refused at an edge, which cannot ask anyone", async () => {
  const provider = await startProvider();
  const running = await startProxied(provider.port);
  const { secret } = await edgeKey(running);
  await hold(running);
  const env = { LATCHKEY_BROKERS_KEY: secret, LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${provider.port}` };
  const edge = await startTestEdge({ brokers: [running.control], env });
  const ask = async (path: string) => {
    const answer = await fetch(`${edge.data}/proxy${path}`, { headers: running.proxyHeaders });
    await answer.arrayBuffer();
    return [answer.status, answer.headers.get("latchkey-error")];
  };
  await expect.poll(() => ask("/held/one"), patient).toEqual([403, "denied_by_policy"]);
  expect(await ask("/free")).toEqual([200, null]);
});
