import { Code, ConnectError } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { TrafficService } from "../../../src/gen/latchkey/v1/traffic_pb.ts";
import { startProvider, startProxied } from "../../support/peers/provider.ts";
import { provider as integration } from "../channels/channels.ts";
import { startScripted } from "../syncs/scripting.ts";

it("holds a limited key to its connections, methods and paths on the proxy", async () => {
  const provider = await startProvider();
  const running = await startProxied(provider.port);
  const { secret } = await running.client(EnvironmentService).createKey({
    environment: "dev",
    id: "narrow",
    limits: { connections: [{ integration: "here", id: "ada" }], methods: ["GET"], paths: ["/repos/*/issues"] },
  });
  const ask = async (method: string, path: string, connection = "ada") => {
    const answer = await running.rest(method, `/proxy${path}`, {
      key: secret,
      headers: { "provider-config-key": "here", "connection-id": connection },
    });
    return [answer.status, answer.headers.get("latchkey-error")];
  };
  expect(await ask("GET", "/repos/ada/issues")).toEqual([200, null]);
  // A second time over the fast lane, whose caches now know the request.
  expect(await ask("GET", "/repos/ada/issues?page=2")).toEqual([200, null]);
  expect(await ask("GET", "/repos/ada/pulls")).toEqual([403, "not_in_session"]);
  expect(await ask("GET", "/repos/a%2fb/issues")).toEqual([403, "not_in_session"]);
  expect(await ask("POST", "/repos/ada/issues")).toEqual([403, "not_in_session"]);
  expect(await ask("GET", "/repos/ada/issues", "bob")).toEqual([403, "not_in_session"]);

  const shown = await running.rest("GET", "/connections/ada?provider_config_key=here", { key: secret });
  expect(shown.status).toBe(200);
  expect(shown.body.credentials).toEqual({});
  const refused = await running.rest("GET", "/connections", { key: secret });
  expect([refused.status, refused.body.error.code]).toEqual([403, "not_in_session"]);

  const traffic = running.client(TrafficService, secret);
  const send = (path: string, id = "ada") => traffic.sendRequest({ connection: { integration: "here", id }, path });
  expect((await send("/repos/ada/issues")).status).toBe(200);
  expect((await send("/repos/ada")).problem?.code).toBe("not_in_session");
  await expect(send("/repos/ada/issues", "bob")).rejects.toMatchObject({ code: Code.PermissionDenied });
  await expect(running.client(ConnectionService, secret).listConnections({})).rejects.toThrow(ConnectError);
});

it("refuses what asks the provider for another method than the limits name", async () => {
  const provider = await startProvider();
  const running = await startProxied(provider.port);
  const limits = { connections: [{ integration: "here", id: "ada" }], methods: ["GET"] };
  const { secret } = await running.client(EnvironmentService).createKey({ environment: "dev", id: "reads", limits });
  const ask = async (path: string, override = {}) => {
    const headers = { "provider-config-key": "here", "connection-id": "ada", ...override };
    return (await running.rest("GET", `/proxy${path}`, { key: secret, headers })).headers.get("latchkey-error");
  };
  expect(await ask("/x?$httpMethod=GET")).toBe(null);
  expect(await ask("/x?$httpMethod=DELETE")).toBe("not_in_session");
  expect(await ask("/x", { "nango-proxy-x-http-method-override": "DELETE" })).toBe("not_in_session");
});

it("keeps the limits of a key that is rotated, and refuses scopes beyond limits", async () => {
  const provider = await startProvider();
  const running = await startProxied(provider.port);
  const keys = running.client(EnvironmentService);
  const limits = { connections: [{ integration: "here" }] };
  await keys.createKey({ environment: "dev", id: "narrow", limits });
  const { key } = await keys.rotateKey({ id: "narrow" });
  expect(key?.limits?.connections.map(({ integration }) => integration)).toEqual(["here"]);
  expect(key?.scopes).toEqual([Scope.PROXY, Scope.CONNECTIONS_READ, Scope.SYNCS]);
  const beyond = keys.createKey({ environment: "dev", limits, scopes: [Scope.PROXY, Scope.CREDENTIALS_READ] });
  await expect(beyond).rejects.toThrow("must not contain credentials:read");
  const wrong = keys.createKey({ environment: "dev", limits: { paths: ["repos"] } });
  await expect(wrong).rejects.toThrow("limits.paths.0 must begin with a slash");
});

it("shows a limited caller only the runs that it has begun itself", async () => {
  const script = `
import { createAction } from "latchkey/scripts";
export default createAction({ description: "Answers.", exec: async () => "the output" });`;
  const { sidecar, connect } = await startScripted({ "actions/answers.ts": script });
  await connect("ada");
  const keys = sidecar.client(EnvironmentService);
  const limits = { connections: [{ integration, id: "ada" }] };
  const scopes = [Scope.SYNCS, Scope.CONNECTIONS_WRITE, Scope.PROXY];
  const keyOf = async (id: string) => (await keys.createKey({ environment: "dev", id, limits, scopes })).secret;
  const [first, second] = [await keyOf("first"), await keyOf("second")];
  const { body } = await sidecar.rest("POST", "/access-sessions", { key: first, body: { limits, scopes: ["syncs"] } });
  const callers = { first, second, session: body.data.token as string, unlimited: undefined };
  const runs: Record<string, string> = {};
  for (const [name, key] of Object.entries(callers)) {
    const headers = { "provider-config-key": integration, "connection-id": "ada", "x-async": "true" };
    const options = { headers, body: { action_name: "answers" }, ...(key !== undefined && { key }) };
    runs[name] = (await sidecar.rest("POST", "/action/trigger", options)).body.id;
  }
  const shown = (key: string | undefined, id = "") =>
    sidecar.rest("GET", `/action/${id}`, key === undefined ? {} : { key }).then(({ status }) => status);
  for (const id of Object.values(runs)) await expect.poll(() => shown(undefined, id)).toBe(200);
  for (const [name, key] of Object.entries(callers)) {
    if (key === undefined) continue;
    const found = await Promise.all(Object.values(runs).map((id) => shown(key, id)));
    expect([name, found]).toEqual([name, Object.keys(runs).map((one) => (one === name ? 200 : 404))]);
  }
  // A later key with the same id is another one.
  await keys.revokeKey({ id: "second" });
  expect(await shown(await keyOf("second"), runs["second"])).toBe(404);
});
