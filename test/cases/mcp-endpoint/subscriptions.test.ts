import { expect, it, onTestFinished } from "vitest";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { PolicyEffect, PolicyService } from "../../../src/gen/latchkey/v1/policy_pb.ts";
import { patient } from "../../support/approvals/holding.ts";
import type { Connecting } from "../../support/sidecar/connecting.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { readMessages } from "./events.ts";
import { olderClient } from "./older-client.ts";
import { documents, modern, modernCall, integration as other, served } from "./served.ts";

const integration = "sandbox-api-key";
const base = `latchkey://records/${integration}/Document`;
const uris = [base, `${base}/ada`, `${base}/unknown`, `latchkey://records/${other}/Document`, "docs://none"];

const headers = { "provider-config-key": integration, "connection-id": "ada" };

const resource = (uri: string, follows: string) => `
  import { createAction } from "latchkey/scripts";
  export default createAction({ description: "A document.", exec: async () => "text",
    mcp: { kind: "resource", uri: "${uri}", follows: "${follows}" } });`;

/** A sidecar with a sync of one connection. */
async function ready() {
  const all = await served({
    scripts: {},
    others: {
      [integration]: {
        "syncs/documents.ts": documents,
        "actions/newest.ts": resource("docs://newest", "Document"),
        "actions/fixed.ts": resource("docs://fixed", ""),
      },
    },
    sidecar: { env: { LATCHKEY_STREAM_GRACE: "10ms", LATCHKEY_GRACE: "10m" } },
  });
  const { rest } = all.sidecar;
  const credentials = { type: "API_KEY", apiKey: "canary-key-0123456789" };
  const body = { provider_config_key: integration, connection_id: "ada", credentials };
  const connect = async () => expect((await rest("POST", "/connections", { body })).status).toBe(201);
  await connect();
  const records = async () => (await rest("GET", "/records?model=Document", { headers })).body.records;
  const trigger = () =>
    rest("POST", "/sync/trigger", {
      body: { provider_config_key: integration, connection_id: "ada", syncs: ["documents"] },
    });
  const prune = (cursor: string) =>
    rest("PATCH", "/records/prune", { body: { model: "Document", until_cursor: cursor }, headers });
  return { all, connect, records, trigger, prune };
}

const subscription = { _meta: { "io.modelcontextprotocol/subscriptionId": 5 } };
const acknowledged = (notifications: object) => ({
  jsonrpc: "2.0",
  method: "notifications/subscriptions/acknowledged",
  params: { notifications, ...subscription },
});
const updated = "notifications/resources/updated";

/** Subscribes as a client of 2026-07-28 does. */
async function listen(all: Connecting, notifications: object, { key = secretKey } = {}) {
  const leaving = new AbortController();
  onTestFinished(() => leaving.abort());
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": modern,
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const answer = await fetch(`${all.sidecar.data}/mcp`, {
    method: "POST",
    signal: leaving.signal,
    headers: {
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": modern,
      "mcp-method": "subscriptions/listen",
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 5, method: "subscriptions/listen", params: { notifications, _meta } }),
  });
  return { ...readMessages(answer), leave: () => leaving.abort() };
}

it("tells clients of 2026-07-28 when records that they may read have changed, as long as they may", async () => {
  const { all, records, trigger, prune } = await ready();
  const listening = await listen(all, { resourceSubscriptions: uris, toolsListChanged: true });
  expect(await listening.next()).toEqual(acknowledged({ resourceSubscriptions: [base, `${base}/ada`] }));
  const session = async (...scopes: string[]) => {
    const limits = { connections: [{ integration, id: "ada" }] };
    return (await all.sidecar.rest("POST", "/access-sessions", { body: { scopes, limits } })).body.data;
  };
  const { id, token } = await session("syncs", "connections:read");
  const limited = await listen(all, { resourceSubscriptions: [base] }, { key: token });
  expect(await limited.next()).toEqual(acknowledged({ resourceSubscriptions: [base] }));
  const blind = await listen(all, { resourceSubscriptions: uris }, { key: (await session("proxy")).token });
  expect(await blind.next()).toEqual(acknowledged({}));

  expect((await trigger()).status).toBe(200);
  const updates = [await listening.next(), await listening.next()];
  expect(updates.map(({ params }) => params.uri).sort()).toEqual([base, `${base}/ada`]);
  expect(updates[0]).toMatchObject({ jsonrpc: "2.0", method: updated, params: subscription });
  expect(await limited.next()).toMatchObject({ method: updated, params: { uri: base, ...subscription } });
  await expect.poll(async () => (await records()).length, patient).toBe(3);
  // A session that has ended gets nothing more.
  await all.sidecar.rest("DELETE", `/access-sessions/${id}`);
  const last = async (of: typeof listening) => {
    for (;;) {
      const message = await of.next();
      if (message?.method !== updated) return message;
    }
  };
  expect(await last(limited)).toMatchObject({ id: 5, error: { data: { code: "unknown_key" } } });
  expect(await limited.next()).toBeUndefined();

  const [first, , third] = await records();
  expect((await prune(first["_nango_metadata"].cursor)).body).toMatchObject({ count: 1 });
  expect(await listening.next()).toMatchObject({ method: updated });
  // The subscription of a client that may not read any more ends with the next change.
  const policy = {
    id: "no",
    environment: "dev",
    effect: PolicyEffect.DENY,
    condition: 'mcp.method == "resources/read"',
  };
  await all.sidecar.client(PolicyService).createPolicy({ policy });
  const listed = async () => (await modernCall(all, "resources/list")).body.result.resources;
  await expect.poll(listed, patient).toEqual([]);
  await prune(third["_nango_metadata"].cursor);
  expect(await last(listening)).toMatchObject({ id: 5, result: { resultType: "complete", ...subscription } });
  expect(await listening.next()).toBeUndefined();
});

it("limits subscriptions, and cuts them when it stops", async () => {
  const { all } = await ready();
  const subscribe = async (notifications: unknown, accept = "application/json, text/event-stream") =>
    (await modernCall(all, "subscriptions/listen", { notifications }, { headers: { accept } })).body.error;
  const message = expect.stringContaining("at most 50 URIs");
  expect(await subscribe({ resourceSubscriptions: "x" })).toMatchObject({ code: -32_602, message });
  expect(await subscribe({ resourceSubscriptions: uris.concat(Array(46).fill("x")) })).toMatchObject({ message });
  expect(await subscribe(undefined)).toMatchObject({ code: -32_602 });
  expect(await subscribe({}, "application/json")).toMatchObject({ message: "accept text/event-stream" });

  const open = await Promise.all(Array.from({ length: 10 }, () => listen(all, {})));
  for (const one of open) expect(await one.next()).toEqual(acknowledged({}));
  expect(await subscribe({})).toMatchObject({ data: { code: "too_many_requests" } });
  // One that leaves makes room.
  open[0]?.leave();
  const again = async () => (await (await listen(all, {})).next()).method;
  await expect.poll(again, patient).toBe("notifications/subscriptions/acknowledged");
  // A process that stops cuts them, so that it need not wait for their clients.
  const cut = open[1]?.next().catch(() => "cut");
  await all.sidecar.stop();
  expect(await cut).toBe("cut");
});

it("tells clients of 2025-11-25 on the stream of their session, also of a connection that was made again", async () => {
  const { all, connect, trigger } = await ready();
  const { sidecar } = all;
  const { secret: own } = await sidecar.client(EnvironmentService).createKey({ environment: "dev", id: "own" });
  const client = await olderClient(sidecar, {}, { key: own });
  const ask = async (method: string, uri: unknown, options = {}) =>
    (await client.send({ id: 1, method: `resources/${method}`, params: { uri } }, options)).next();
  const stream = await client.open();
  expect(stream.status).toBe(200);
  expect((await ask("subscribe", base)).result).toEqual({});
  expect((await ask("subscribe", `${base}/ada`)).result).toEqual({});
  // The same session under another key is another one.
  const strange = await client.open({ authorization: `Bearer ${secretKey}` });
  expect((await ask("subscribe", "docs://newest", { key: secretKey })).result).toEqual({});
  expect((await ask("unsubscribe", `${base}/ada`)).result).toEqual({});

  const told = (uri: string) => ({ jsonrpc: "2.0", method: updated, params: { uri } });
  await trigger();
  expect(await stream.next()).toEqual(told(base));
  expect(await strange.next()).toEqual(told("docs://newest"));
  await sidecar.rest("DELETE", `/connections/ada?provider_config_key=${integration}`);
  await connect();
  // Its records are gone, and others come.
  expect(await stream.next()).toEqual(told(base));
  await trigger();
  expect(await stream.next()).toEqual(told(base));
  // A stream that opens tells once of what may have changed before.
  stream.leave();
  const again = await client.open();
  expect(await again.next()).toEqual(told(base));

  expect((await ask("subscribe", "docs://none")).error).toMatchObject({ code: -32_002, data: { uri: "docs://none" } });
  expect((await ask("subscribe", "docs://fixed")).error.message).toContain("cannot be followed");
  expect((await ask("subscribe", 1)).error.message).toContain("`uri` must be");
  expect((await ask("subscribe", base, { session: "x" })).error.message).toContain("Mcp-Session-Id");
  expect((await client.open({ "mcp-session-id": "x" })).status).toBe(405);
  expect((await client.open({ accept: "application/json" })).status).toBe(406);
  for (let n = 0; n < 49; n += 1) await ask("subscribe", `${base}/ada?cursor=${n}`);
  expect((await ask("subscribe", `${base}/ada`)).error.message).toBe("a session follows at most 50 resources");
  await sidecar.client(EnvironmentService).revokeKey({ id: "own" });
  const last = async (): Promise<unknown> => ((await again.next()) === undefined ? "ended" : last());
  expect(await last()).toBe("ended");
});
