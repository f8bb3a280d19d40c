import { expect, it, onTestFinished } from "vitest";
import { PolicyEffect, PolicyService } from "../../../src/gen/latchkey/v1/policy_pb.ts";
import { patient } from "../../support/approvals/holding.ts";
import type { Connecting } from "../../support/sidecar/connecting.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { readMessages } from "./events.ts";
import { documents, modern, modernCall, integration as other, served } from "./served.ts";

const integration = "sandbox-api-key";
const base = `latchkey://records/${integration}/Document`;
const uris = [base, `${base}/ada`, `${base}/unknown`, `latchkey://records/${other}/Document`, "docs://none"];

const headers = { "provider-config-key": integration, "connection-id": "ada" };

/** A sidecar with a sync of one connection. */
async function ready() {
  const all = await served({
    scripts: {},
    others: { [integration]: { "syncs/documents.ts": documents } },
    sidecar: { env: { LATCHKEY_STREAM_GRACE: "10ms", LATCHKEY_GRACE: "10m" } },
  });
  const { rest } = all.sidecar;
  const credentials = { type: "API_KEY", apiKey: "canary-key-0123456789" };
  const body = { provider_config_key: integration, connection_id: "ada", credentials };
  expect((await rest("POST", "/connections", { body })).status).toBe(201);
  const records = async () => (await rest("GET", "/records?model=Document", { headers })).body.records;
  const trigger = () =>
    rest("POST", "/sync/trigger", {
      body: { provider_config_key: integration, connection_id: "ada", syncs: ["documents"] },
    });
  const prune = (cursor: string) =>
    rest("PATCH", "/records/prune", { body: { model: "Document", until_cursor: cursor }, headers });
  return { all, records, trigger, prune };
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
