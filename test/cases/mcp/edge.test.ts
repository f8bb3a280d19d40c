import { expect, it } from "vitest";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { startTestEdge } from "../../support/edges/test-edge.ts";
import { result } from "../../support/peers/mcp-peer.ts";
import { notion } from "../../support/peers/mcp-vendors.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { edgeKey } from "../edges/test-edge.ts";
import { connect, connectionsOf, create, peerAndSidecar, toLoopback } from "./connected-peer.ts";

const soon = { interval: 20 };

it("relays messages from an edge, which finds the only connection and tells brokers what a server wants", async () => {
  const { peer, sidecar } = await peerAndSidecar(notion, { publicUrl: "" });
  await create({ peer, sidecar });
  await connect({ peer, sidecar });
  const [{ connection_id: id = "" } = {}] = await connectionsOf({ sidecar });
  const edge = await startTestEdge({
    brokers: [sidecar.control],
    resolve: toLoopback,
    env: {
      LATCHKEY_BROKERS_KEY: (await edgeKey(sidecar)).secret,
      LATCHKEY_BROKERS_DATA: sidecar.data,
      LATCHKEY_ALLOW_PRIVATE: peer.allowed(),
    },
  });
  async function send(method: string, path = "/mcp/tools") {
    const response = await fetch(`${edge.data}${path}`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${secretKey}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: {} }),
    });
    const text = await response.text();
    return { status: response.status, text };
  }
  expect(await send("tools/list")).toMatchObject({ status: 200, text: expect.stringContaining("echo") });
  expect(peer.requestsTo("/mcp").at(-1)?.headers.authorization).toMatch(/^Bearer at-/);
  // A session goes on at the server that has it.
  const { answer } = peer;
  peer.answer = (message, response) => {
    response.setHeader("mcp-session-id", "session-1");
    result(response, message.id, {});
  };
  expect((await send("ping")).status).toBe(200);
  peer.answer = answer;
  expect(await send("ping", "/mcp/unknown")).toMatchObject({ status: 404 });

  const second = {
    connection_id: "second",
    provider_config_key: "tools",
    credentials: { type: "OAUTH2", access_token: "at-none" },
  };
  expect((await sidecar.rest("POST", "/connections", { body: second })).status).toBe(201);
  await expect.poll(async () => (await send("ping")).text, soon).toContain("send the header Connection-Id");
  expect((await sidecar.rest("DELETE", "/connections/second?provider_config_key=tools")).status).toBe(200);
  await expect.poll(async () => (await send("ping")).status, soon).toBe(200);

  peer.answer = (_, response) => {
    const challenge = 'Bearer error="insufficient_scope", scope="pages:write"';
    response.writeHead(403, { "www-authenticate": challenge }).end();
  };
  expect((await send("tools/list")).status).toBe(403);
  const ref = { environment: "dev", integration: "tools", id };
  const shown = async () => (await sidecar.client(ConnectionService).getConnection({ ref })).connection;
  await expect.poll(async () => (await shown())?.missingScopes, soon).toEqual(["pages:write"]);
});
