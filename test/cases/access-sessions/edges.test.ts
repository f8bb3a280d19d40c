import { expect, it } from "vitest";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { startTestEdge } from "../../support/edges/test-edge.ts";
import { startForSessions, useUp } from "./faces.ts";

async function startEdge() {
  const running = await startForSessions();
  const keys = running.client(EnvironmentService);
  const { secret } = await keys.createKey({ environment: "dev", id: "edges", scopes: [Scope.EDGE] });
  const allowed = running.config.allowPrivate.join(",");
  const edge = await startTestEdge({
    brokers: [running.control],
    env: { LATCHKEY_BROKERS_KEY: secret, LATCHKEY_BROKERS_DATA: running.data, LATCHKEY_ALLOW_PRIVATE: allowed },
  });
  const create = async (more: object = {}) => {
    const limits = { connections: [{ integration: "here", id: "ada" }], paths: ["/x", "/events"] };
    const { body } = await running.rest("POST", "/access-sessions", { body: { limits, ...more } });
    return body.data as { readonly id: string; readonly token: string };
  };
  const ask = async (token: string, { connection = "ada", path = "/x", at = edge.data } = {}) => {
    const headers = { authorization: `Bearer ${token}`, "provider-config-key": "here", "connection-id": connection };
    const answer = await fetch(`${at}/proxy${path}`, { headers });
    return [answer.status, answer.headers.get("latchkey-error")] as const;
  };
  return { running, edge, keys, create, ask };
}

it("holds sessions and limited keys on an edge to their limits, and ends a session there", async () => {
  const { running, edge, keys, create, ask } = await startEdge();
  const { id, token } = await create();
  const limited = await keys.createKey({
    environment: "dev",
    limits: { connections: [{ integration: "here", id: "ada" }], paths: ["/x"] },
  });
  for (const secret of [token, limited.secret]) {
    expect(await ask(secret)).toEqual([200, null]);
    expect(await ask(secret)).toEqual([200, null]);
    expect(await ask(secret, { path: "/y" })).toEqual([403, "not_in_session"]);
    expect(await ask(secret, { connection: "bob" })).toEqual([403, "not_in_session"]);
  }
  const elsewhere = await create({ audience: { addresses: ["10.0.0.0/8"] } });
  expect(await ask(elsewhere.token)).toEqual([403, "not_in_session"]);
  // This edge has a key, and no service account.
  const ofPod = await create({ audience: { service_accounts: ["system:serviceaccount:shop:agent"] } });
  expect(await ask(ofPod.token)).toEqual([401, "unknown_key"]);

  const stream = await fetch(`${edge.data}/proxy/events`, {
    headers: { authorization: `Bearer ${token}`, "provider-config-key": "here", "connection-id": "ada" },
  });
  expect((await running.rest("DELETE", `/access-sessions/${id}`)).status).toBe(200);
  await expect.poll(() => ask(token), { interval: 10 }).toEqual([401, "unknown_key"]);
  await expect(stream.text()).rejects.toThrow();
});

it("refuses a session with an audience where an edge relays, since the connection is the edge's", async () => {
  const { running, edge, create, ask } = await startEdge();
  const current = async (token: string, at: string) => {
    const answer = await fetch(`${at}/access-sessions/current`, { headers: { authorization: `Bearer ${token}` } });
    return [answer.status, answer.headers.get("latchkey-error")];
  };
  const bound = await create({ audience: { addresses: ["127.0.0.0/8"] } });
  const free = await create();
  expect(await current(bound.token, running.data)).toEqual([200, null]);
  expect(await current(bound.token, edge.data)).toEqual([403, "not_in_session"]);
  expect(await current(free.token, edge.data)).toEqual([200, null]);
  // Where the edge itself checks, it knows its caller.
  expect(await ask(bound.token)).toEqual([200, null]);
});

it("shares the budget of a session between an edge and its broker", async () => {
  const { running, edge, create, ask } = await startEdge();
  const { token } = await create({ budget: 30 });
  const asked = Array.from({ length: 60 }, (_, i) => ask(token, { at: i % 2 === 0 ? edge.data : running.data }));
  await Promise.all(asked);
  for (const at of [edge.data, running.data, edge.data]) await useUp(() => ask(token, { at }));
  expect(running.sent()).toBe(30);
});
