import { once } from "node:events";
import http2 from "node:http2";
import { expect, it, onTestFinished } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { PolicyEffect, PolicyService } from "../../../src/gen/latchkey/v1/policy_pb.ts";
import { startTestEdge } from "../../support/edges/test-edge.ts";
import { startProvider, startProxied } from "../../support/peers/provider.ts";
import { type Postgres, startPostgres } from "../../support/postgres/postgres.ts";
import { startTestSidecar, type TestSidecar } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { openSession, streamed } from "../../support/wire/http2-call.ts";
import { provider as integration } from "../channels/channels.ts";
import { edgeKey, openEdge } from "../edges/test-edge.ts";
import { startScripted } from "../syncs/scripting.ts";

/** A loaded machine is slow. */
const patient = { timeout: 30_000 };

const deny = ({ client }: Pick<TestSidecar, "client">, condition: string, id = "denied") =>
  client(PolicyService).createPolicy({
    policy: { id, environment: "dev", effect: PolicyEffect.DENY, condition, description: "a test" },
  });

it("judges the request that opens a WebSocket", async () => {
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const running = await startProxied((server.address() as { port: number }).port);
  const open = (path: string): Promise<string> => {
    const socket = new WebSocket(`${running.data.replace("http", "ws")}/proxy${path}`, {
      headers: running.proxyHeaders,
    });
    return new Promise((resolve) => {
      socket.on("open", () => {
        socket.close();
        resolve("open");
      });
      socket.on("unexpected-response", (_request, answer) => resolve(String(answer.headers["latchkey-error"])));
      socket.on("error", () => {});
    });
  };
  await deny(running, 'request.path == "/closed"');
  await expect.poll(() => open("/closed"), patient).toBe("denied_by_policy");
  expect(await open("/open")).toBe("open");
});

it("judges gRPC calls by their path and headers, and refuses what reads their messages", async () => {
  const provider = http2.createServer();
  provider.listen(0, "127.0.0.1");
  await once(provider, "listening");
  onTestFinished(() => void provider.close());
  const arrived: string[] = [];
  provider.on("stream", (stream, headers) => {
    arrived.push(String(headers[":path"]));
    stream.respond({ ":status": 200, "content-type": "application/grpc", "grpc-status": "0" }, { endStream: true });
  });
  const running = await startProxied((provider.address() as { port: number }).port);
  const client = await openSession(running.data);
  const call = async (path: string) => {
    const headers = { ...running.proxyHeaders, "content-type": "application/grpc", te: "trailers", ":method": "POST" };
    const answer = await streamed(client, path, { headers, body: Buffer.from([0, 0, 0, 0, 0]) });
    return [answer.headers["grpc-status"] ?? answer.trailers?.["grpc-status"], answer.headers["latchkey-error"]];
  };
  await deny(running, 'request.path == "/files.Files/Delete"', "path");
  await expect.poll(() => call("/files.Files/Delete"), patient).toEqual(["7", "denied_by_policy"]);
  arrived.length = 0;
  expect(await call("/files.Files/Delete")).toEqual(["7", "denied_by_policy"]);
  expect(await call("/files.Files/Read")).toEqual(["0", undefined]);
  await deny(running, 'request.path == "/files.Files/Write" && request.body.size > 1', "body");
  await expect.poll(() => call("/files.Files/Write"), patient).toEqual(["7", "denied_by_policy"]);
  expect(arrived.filter((path) => path !== "/files.Files/Write")).toEqual(["/files.Files/Read"]);
});

it("judges requests of scripts, which have a name and no key", async () => {
  const script = `
import { createAction } from "latchkey/scripts";
import * as z from "zod";
export default createAction({ description: "Asks.", exec: async (nango, path) => {
  try { await nango.get({ endpoint: path }); return "sent"; } catch (error) { return error.code ?? String(error); }
} });`;
  const started = await startScripted({ "actions/asks.ts": script });
  await started.connect("ada");
  const run = async (path: string) => {
    const headers = { "provider-config-key": integration, "connection-id": "ada" };
    const body = { action_name: "asks", input: path };
    return (await started.sidecar.rest("POST", "/action/trigger", { headers, body })).body;
  };
  expect(await run("/a")).not.toBe("denied_by_policy");
  await deny(started.sidecar, 'caller.script == "asks" && caller.key == "" && request.path.endsWith("/closed")');
  await expect.poll(() => run("/closed"), patient).toBe("denied_by_policy");
  expect(await run("/a")).not.toBe("denied_by_policy");
});

it("applies policies at edges within a second, and lets no edge without policies serve", async () => {
  const provider = await startProvider();
  const running = await startProxied(provider.port);
  const { secret } = await edgeKey(running);
  const env = { LATCHKEY_BROKERS_KEY: secret, LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${provider.port}` };
  await deny(running, 'request.path == "/first"', "first");
  const edge = await startTestEdge({ brokers: [running.control], env });
  const ask = async (path: string) => {
    const answer = await fetch(`${edge.data}/proxy${path}`, { headers: running.proxyHeaders });
    await answer.arrayBuffer();
    return [answer.status, answer.headers.get("latchkey-error")];
  };
  expect(await ask("/first")).toEqual([403, "denied_by_policy"]);
  expect(await ask("/second")).toEqual([200, null]);
  await deny(running, 'request.path == "/second" && connection.id == "ada"', "second");
  await expect.poll(() => ask("/second"), patient).toEqual([403, "denied_by_policy"]);
  await deny(running, 'connection.tags.team == "red" && request.path == "/third"', "third");
  await expect.poll(() => ask("/third"), patient).toEqual([403, "denied_by_policy"]);
  expect(await ask("/fourth")).toEqual([200, null]);
  await running.client(PolicyService).deletePolicy({ environment: "dev", id: "first" });
  await expect.poll(() => ask("/first"), patient).toEqual([200, null]);

  // An older edge would send what policies refuse.
  const older = openEdge(running, secret, { edgeId: "an-older-edge" });
  expect(String(await older.ended)).toContain("which this edge does not apply");
});

let postgres: Postgres | undefined;

it.skipIf(lacks("postgres"))(
  "applies a policy of one replica at another within a second",
  async () => {
    postgres = await startPostgres();
    onTestFinished(() => postgres?.stop());
    const provider = await startProvider();
    const env = { LATCHKEY_STORE: postgres.storeUrl("policies") };
    const first = await startProxied(provider.port, { env });
    const second = await startTestSidecar({
      env: { ...env, LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${provider.port}` },
    });
    const ask = async () => (await second.rest("GET", "/proxy/a", { headers: first.proxyHeaders })).status;
    expect(await ask()).toBe(200);
    await deny(first, "true");
    await expect.poll(ask, patient).toBe(403);
    await first.client(PolicyService).deletePolicy({ environment: "dev", id: "denied" });
    await expect.poll(ask, patient).toBe(200);
  },
  60_000,
);
